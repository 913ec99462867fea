package faultlab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestLabCanFail: a lab that finds nothing proves something only if it finds what
// is there. Between a gateway and its backend stands one who breaks a promise,
// and the checker has to say which.
func TestLabCanFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		want kind
		plan plan
		do   script
		lie  func(req *http.Request, body []byte) (out []byte, times int)
	}{
		{"no mark", isUnmarked, plan{name: "free"}, mixed(takes, takes, takes, resets), func(req *http.Request, body []byte) ([]byte, int) {
			req.Header.Del("Gateway-Possible-Duplicate")
			return body, 1
		}},
		{"another octet", isChanged, plan{name: "free"}, always(takes), func(_ *http.Request, body []byte) ([]byte, int) {
			return bytes.Replace(body, []byte("\r\n"), []byte("\n"), 1), 1
		}},
		{"an answer of nobody's", isLost, plan{name: "free"}, always(takes), func(_ *http.Request, body []byte) ([]byte, int) { return body, 0 }},
		{"twice", isAgain, plan{name: "single", atMost: true}, always(takes), func(req *http.Request, body []byte) ([]byte, int) {
			req.Header.Set("Gateway-Possible-Duplicate", "true") // it is the repeat that is wrong
			return body, 2
		}},
		{"twice without need", isRepeated, plan{name: "free"}, always(takes), func(req *http.Request, body []byte) ([]byte, int) {
			req.Header.Set("Gateway-Possible-Duplicate", "true")
			return body, 2
		}},
		{"another id", isMisnamed, plan{name: "free"}, always(takes), func(req *http.Request, body []byte) ([]byte, int) {
			req.Header.Set("Gateway-Message-Id", "01900000-0000-7000-8000-000000000000")
			return body, 1
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			n := newBackend(t, l.rec, l.seed, tt.plan.name)
			n.act(tt.do)
			n.up()
			tt.plan.node = standBefore(t, n, tt.lie)
			l.configure(tt.plan)
			l.start()
			l.send(4, 15, 0, 0, tt.plan.name).wait()
			n.act(always(takes))
			l.settle(patience)
			l.mustFind(tt.want)
			l.stop()
		})
	}
	t.Run("no sync", func(t *testing.T) {
		if why := withoutStrace(nil); why != "" {
			t.Skip(why)
		}
		syncingNothing(t)
	})
}

// mustFind: the checker finds violations of this kind, and of no other.
func (l *lab) mustFind(want kind) {
	l.t.Helper()
	var found []kind
	for _, v := range check(&l.rec.h).Violations {
		if !slices.Contains(found, v.Kind) {
			found = append(found, v.Kind)
		}
	}
	if !slices.Equal(found, []kind{want}) {
		l.t.Errorf("the checker found %q, want %q", found, want)
	}
}

// standBefore puts itself before b and gives on what lie makes of each request, so
// many times. What is given to nobody is answered all the same.
func standBefore(t *testing.T, b *backend, lie func(req *http.Request, body []byte) (out []byte, times int)) *backend {
	front := newBackend(t, b.rec, 0, b.route)
	front.raw = func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			out, times := lie(req, body)
			status, text := http.StatusOK, []byte(replyEnvelope)
			for range times {
				if status, text, err = giveOn(b, req, out); err != nil {
					reset(c)
					return
				}
			}
			if _, err := fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", status, len(text), text); err != nil {
				return
			}
		}
	}
	front.up()
	return front
}

func giveOn(b *backend, req *http.Request, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	again, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.addr+req.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	again.Header, again.Close = req.Header.Clone(), true
	res, err := http.DefaultClient.Do(again)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}
