package queue

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestStandsStill: a connection to the embedded server whose other end does not read
// for longer than the server waits by default goes on, as after a process that stood
// still in the middle of a write.
func TestStandsStill(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreOptions{Dir: t.TempDir(), Durability: Relaxed, MinFree: -1})
	c, err := s.js.srv.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReaderSize(c, 16)
	if _, err := r.ReadString('\n'); err != nil { // INFO
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "CONNECT {\"verbose\":false}\r\nSUB still 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "PONG\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	const count, size = 4, 64 << 10
	for range count {
		if err := s.js.api.Publish("still", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.js.api.Flush(); err != nil {
		t.Fatal(err)
	}
	<-time.After(11 * time.Second) // the default is 10 s
	for range count {
		head, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(head, fmt.Sprintf("MSG still 1 %d", size)) {
			t.Fatalf("got %q, %v", head, err)
		}
		if _, err := io.CopyN(io.Discard, r, size+2); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Err(); err != nil {
		t.Errorf("the store failed: %v", err)
	}
}
