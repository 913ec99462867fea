// Command gateway is the Soapway gateway: it runs it (serve), checks its
// configuration (check), sends envelopes (send) and operates the messages that
// a gateway has stored (queue).
//
// Results go to stdout, everything else to stderr. The exit code is 0 for
// success, 1 when a problem was found, 2 for wrong usage.
package main

import (
	"context"
	"io"
	"os"
	"time"
)

func main() {
	os.Exit(exec(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// exec runs one command line and returns its exit code. Nothing below it reads
// the process's arguments, environment or standard files by itself.
func exec(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{env: env, stdin: stdin, stdout: stdout, stderr: stderr, started: time.Now()}
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return c.report(err)
}
