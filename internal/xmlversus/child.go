package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A child is one of the processes in which contenders live.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs argv, pinned to a core if pin says how.
func start(pin, argv []string) (*child, error) {
	argv = append(append([]string{}, pin...), argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := newChild(in, out)
	c.cmd = cmd
	return c, nil
}

func newChild(in io.WriteCloser, out io.Reader) *child {
	return &child{in: in, out: bufio.NewReader(out)}
}

// stop ends the process: its input ends.
func (c *child) stop() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

func (c *child) load(f family) error {
	for _, doc := range f.variants {
		if _, err := fmt.Fprintf(c.in, "doc %s %d\n%s", f.name, len(doc), doc); err != nil {
			return err
		}
		if _, err := c.answer(); err != nil {
			return err
		}
	}
	return nil
}

// run lets a contender parse, and returns the CPU time and what it saw.
func (c *child) run(contender, family string, passes int) (time.Duration, tally, error) {
	answer, err := c.ask("run %s %s %d", contender, family, passes)
	if err != nil {
		return 0, tally{}, fmt.Errorf("%s, %s: %w", contender, family, err)
	}
	nanos, seen, _ := strings.Cut(answer, " ")
	var took time.Duration
	if _, err := fmt.Sscan(nanos, (*int64)(&took)); err != nil {
		return 0, tally{}, err
	}
	t, err := parseTally(seen)
	return took, t, err
}

func (c *child) allocs(contender, family string) (n float64, err error) {
	answer, err := c.ask("allocs %s %s", contender, family)
	if err == nil {
		_, err = fmt.Sscan(answer, &n)
	}
	return n, err
}

func (c *child) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		return "", err
	}
	return c.answer()
}

func (c *child) answer() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("no answer: %w", err)
	}
	if reason, ok := strings.CutPrefix(line, "error"); ok {
		return "", errors.New(strings.TrimSpace(strings.TrimPrefix(reason, ":")))
	}
	return strings.TrimSpace(line), nil
}
