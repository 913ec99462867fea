package proxy

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"soapway/soapcodec"
)

// TestNothingIsMixedUp: pooled buffers and decoders never show one exchange the
// octets of another, while tables are swapped under them (-race).
func TestNothingIsMixedUp(t *testing.T) {
	const workers, each = 8, 120
	echo := func() *node {
		n := newNode("http://node.test/svc")
		n.unread = true
		n.answer = func(_ context.Context, req *Request) (*Response, error) {
			rc, err := req.Body()
			if err != nil {
				return nil, err
			}
			defer rc.Close()
			b, err := io.ReadAll(rc)
			if err != nil {
				return nil, &SendError{Class: Maybe, Source: true, Err: err}
			}
			return respond(200, "text/xml; charset=utf-8", string(b)), nil
		}
		return n
	}
	table := func(mode soapcodec.Normalize) *Table {
		return mustCompile(t, TableOptions{Routes: []Route{{
			Name: "r", Normalize: mode, Limits: Limits{Buffer: 8 << 10}, Backend: &Backend{Nodes: []Node{echo(), echo()}},
		}}})
	}
	tables := []*Table{table(soapcodec.Keep), table(soapcodec.Envelope)}
	h := NewHandler(tables[0], Options{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				text := strings.Repeat(fmt.Sprintf("%d.%d ", w, i), 1+(i*37)%4000)
				if i%7 == 0 {
					text = strings.Repeat("y", 10+i)
				}
				want := strings.Replace(env11, ">x<", ">"+text+"<", 1)
				body := want
				typ := "text/xml; charset=utf-8"
				fields := []string{}
				switch i % 4 {
				case 1:
					body, typ = utf16le(want), "text/xml; charset=utf-16"
				case 2:
					body, fields = string(encode(t, "gzip", []byte(want))), []string{"Content-Encoding", "gzip"}
				case 3: // bad: must disturb nobody
					bad := exchange(typ, body[:len(body)-1])
					serve(t, h, bad)
				}
				h.Swap(tables[i%2])
				g := serve(t, h, exchange(typ, body, fields...))
				if g.Status != 200 || g.body != want || g.err != nil {
					t.Errorf("worker %d, message %d: got %d, %d octets, %v, want %d", w, i, g.Status, len(g.body), g.err, len(want))
					return
				}
			}
		})
	}
	wg.Wait()
}
