package app

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestEngines: the same exchange on both engines, and which one is at work:
// only net/http takes the same length twice (docs/specifications.md).
func TestEngines(t *testing.T) {
	g := start(t, `
admin: {address: "127.0.0.1:0"}
listeners:
  - {name: own, address: "127.0.0.1:0"}
  - {name: fast, address: "127.0.0.1:0", engine: fast}
  - {name: std, address: "127.0.0.1:0", engine: std}
routes:
  - {name: echo, to: ["builtin:echo"]}
`)
	for _, l := range g.app.listeners {
		for _, twice := range []bool{false, true} {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			length := fmt.Sprintf("Content-Length: %d\r\n", len(envelope))
			if twice {
				length += length
			}
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: gw\r\nContent-Type: text/xml\r\nConnection: close\r\n"+length+"\r\n"+envelope)
			answer, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			want := "HTTP/1.1 200 "
			if twice && l.name != "std" {
				want = "HTTP/1.1 400 "
			}
			if !strings.HasPrefix(string(answer), want) {
				t.Errorf("%s, length twice %v: got %.60q, want %q", l.name, twice, answer, want)
			}
		}
	}
}
