package h1_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"soapway/internal/h1"
)

// upper answers in capitals.
type upper struct{}

func (upper) Serve(_ context.Context, r *h1.Request, w *h1.Response) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.Status, w.Close = 400, true
		return
	}
	b = bytes.ToUpper(b)
	w.Status, w.Body, w.Length = 200, bytes.NewReader(b), int64(len(b))
}

func (upper) Done(*h1.Response, error) {}

func Example() {
	s, err := h1.NewServer(h1.Options{}, upper{})
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(ln) }()

	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		panic(err)
	}
	request, err := h1.AppendRequest(nil, "POST", "/orders", "gateway", nil, 4)
	if err != nil {
		panic(err)
	}
	c.Write(append(request, "<a/>"...))
	in := h1.NewClientConn(c)
	answer, err := in.ReadHead("POST", 64<<10)
	if err != nil {
		panic(err)
	}
	body, err := io.ReadAll(in)
	fmt.Println(answer.Status, string(body), err)

	c.Close()
	ln.Close()
	fmt.Println(errors.Is(<-served, net.ErrClosed))
	s.Close(errors.New("the end"))
	// Output:
	// 200 <A/> <nil>
	// true
}
