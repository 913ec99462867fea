package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"soapway/internal/field"
	"soapway/proxy"
)

func newBuiltin(t *testing.T, name string) proxy.Node {
	t.Helper()
	n, err := NewBuiltin(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		if got := n.InFlight(); got != 0 {
			t.Errorf("InFlight: got %d, want 0", got)
		}
	})
	return n
}

func TestEcho(t *testing.T) {
	n := newBuiltin(t, "builtin:echo")
	if n.Name() != "builtin:echo" {
		t.Errorf("Name: got %q", n.Name())
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, size := range []int{0, 1, echoBuffer, echoBuffer + 1, 3 * echoBuffer} {
		for _, known := range []bool{true, false} {
			want := strings.Repeat("x", size)
			req := request(want)
			req.Header = field.Of(http.Header{"Content-Type": {"application/soap+xml"}, "Content-Encoding": {"gzip"}, "X": {"y"}})
			if !known {
				req.Length = -1
			}
			resp, err := n.Send(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Header) != 2 || resp.Header.Get("Content-Type") != "application/soap+xml" || resp.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("header: got %v", resp.Header)
			}
			if got := body(t, resp); got != want || resp.Status != 200 || resp.Length != int64(size) {
				t.Errorf("%d octets: got %d, %d", size, resp.Status, len(got))
			}
			if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
				t.Errorf("%d octets: %d files left", size, len(left))
			}
		}
	}
}

func TestBuiltinErrors(t *testing.T) {
	bad := errors.New("the message turned out bad")
	for _, name := range []string{"builtin:echo", "builtin:sink"} {
		for _, tt := range []struct {
			length int64
			body   io.Reader
			want   error
		}{
			{10, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad},
			{5, io.MultiReader(strings.NewReader("12345"), &failing{bad}), bad},
			{-1, io.MultiReader(io.LimitReader(zeros{}, 2*echoBuffer), &failing{bad}), bad},
			{10, strings.NewReader("12345"), io.ErrUnexpectedEOF},
			{3, strings.NewReader("12345"), errBodyTooLong},
		} {
			n := newBuiltin(t, name)
			req, b := streaming(tt.body, tt.length)
			_, err := n.Send(t.Context(), req)
			if e := sendError(t, err); !e.Source || !errors.Is(e, tt.want) {
				t.Errorf("%s: got %+v, want the source's %v", name, e, tt.want)
			}
			await(t, b.closed, "Close of the body")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := newBuiltin(t, "echo")
	if _, err := n.Send(ctx, request("x")); sendError(t, err).Class != proxy.NotSent {
		t.Errorf("caller has left: got %v", err)
	}
	n.Close()
	if _, err := n.Send(t.Context(), request("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
	if _, err := NewBuiltin("builtin:ehco"); err == nil {
		t.Error("builtin:ehco: got no error")
	}
}

func TestSinkAndPage(t *testing.T) {
	sink := newBuiltin(t, "builtin:sink")
	req, b := streaming(io.LimitReader(zeros{}, 1<<20), 1<<20)
	resp, err := sink.Send(t.Context(), req)
	if err != nil || resp.Status != 202 || resp.Body != nil || resp.Length != 0 || b.bytes != 1<<20 {
		t.Errorf("sink: got %+v, %v after %d octets", resp, err, b.bytes)
	}
	web := newBuiltin(t, "builtin:page")
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405} {
		req := request("")
		req.Method = method
		resp, err := web.Send(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Status != status || (resp.Body != nil) != (method == "GET") || (resp.Header.Get("Allow") != "") != (status == 405) {
			t.Errorf("%s: got %+v", method, resp)
		}
		if method == "GET" && !strings.HasPrefix(body(t, resp), "<!DOCTYPE html>") {
			t.Error("GET: no page")
		}
		if resp.Length != int64(len(page)) && status == 200 {
			t.Errorf("%s: length %d, want %d", method, resp.Length, len(page))
		}
	}
}
