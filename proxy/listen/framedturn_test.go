package listen

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"soapway/proxy"
	"soapway/soapcodec"
)

// TestFramedPrompt: requests that wait for nobody are served by who reads them,
// between others that do, and all are answered in order.
func TestFramedPrompt(t *testing.T) {
	addr, _ := listenPrompt(t, FramedOptions{Pipeline: 8}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		var head [4]byte
		if n, _ := ex.Body.Read(head[:]); n > 0 && head[0] == 'w' {
			ex.Waits.Wait()
			<-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
		r := echoFrame(ctx, ex) // the rest, which must have stayed
		r.Body, r.Length = strings.NewReader(string(head[:])+text(r)), r.Length+4
		return r
	})
	p := connect(t, addr)
	const n = 500
	var want []string
	for i := range n {
		kind := "now "
		if rand.IntN(3) == 0 {
			kind = "wait"
		}
		want = append(want, fmt.Sprintf("%s %d %s", kind, i, strings.Repeat("x", rand.IntN(300))))
	}
	go io.WriteString(p, framed(2, want...))
	for i, w := range want {
		if got := p.frame(2); got != w {
			t.Fatalf("reply %d: got %q, want %q", i, got, w)
		}
	}
}

// text is the body of a reply of echoFrame.
func text(r *proxy.Reply) string {
	b := make([]byte, r.Length)
	n, _ := r.Body.Read(b)
	return string(b[:n])
}

// TestFramedPromptReplies: what is special about a reply is so for the reader as
// well: one that streams, one that ends the connection, one that panics.
func TestFramedPromptReplies(t *testing.T) {
	addr, _ := listenPrompt(t, FramedOptions{Length: 4}, func(ctx context.Context, ex *proxy.Exchange) *proxy.Reply {
		r := echoFrame(ctx, ex)
		switch what := text(r); what {
		case "long":
			long := strings.Repeat("l", 3*gatherMost)
			return &proxy.Reply{Status: 200, Body: strings.NewReader(long), Length: int64(len(long))}
		case "last":
			return &proxy.Reply{Status: 503, Code: soapcodec.CodeBusy, CloseConnection: true}
		case "panic":
			panic("at the disco")
		default:
			r.Body = strings.NewReader(what)
		}
		return r
	})
	p := connect(t, addr)
	p.send(framed(4, "a", "long", "b", "", "panic", "long", "last", "never"))
	for _, want := range []string{"a", "lll", "b", "", ">Internal<", "lll", ">Busy<"} {
		if got := p.frame(4); !strings.Contains(got, want) || want == "lll" && len(got) != 3*gatherMost {
			t.Errorf("got %.100q of %d octets, want %q", got, len(got), want)
		}
	}
	p.closed()
}

// TestFramedRepliesBeforeRequests: a peer that reads nothing before it has sent
// everything gets every reply, though they do not fit what the system holds for it.
func TestFramedRepliesBeforeRequests(t *testing.T) {
	addr, _ := listenPrompt(t, FramedOptions{Length: 4}, func(_ context.Context, ex *proxy.Exchange) *proxy.Reply {
		const n = 60 << 10
		return &proxy.Reply{Status: http.StatusOK, Body: strings.NewReader(strings.Repeat("r", n)), Length: n}
	})
	p := connect(t, addr)
	const n = 300 // 18 MB of replies
	p.send(strings.Repeat(framed(4, "<a/>"), n))
	for i := range n {
		if got := p.frame(4); len(got) != 60<<10 {
			t.Fatalf("reply %d: got %d octets", i, len(got))
		}
	}
}
