package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"soapway/proxy"
	"soapway/proxy/upstream"
)

func Example() {
	node, err := upstream.NewHTTP(upstream.HTTPOptions{URL: "http://user:secret@127.0.0.1:1/orders?token=x"})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	fmt.Println(node.Name())

	_, err = node.Send(context.Background(), &proxy.Request{
		Method: "POST",
		Length: 4,
		Body:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("<a/>")), nil },
	})
	var sent *proxy.SendError
	if errors.As(err, &sent) {
		fmt.Println(sent.Class) // nobody listens on port 1
	}
	// Output:
	// http://127.0.0.1:1/orders
	// not_sent
}

func ExampleNewBuiltin() {
	node, err := upstream.NewBuiltin("builtin:echo")
	if err != nil {
		panic(err)
	}
	defer node.Close()
	resp, err := node.Send(context.Background(), &proxy.Request{
		Method: "POST",
		Length: 4,
		Body:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("<a/>")), nil },
	})
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(b))
	// Output: 200 <a/>
}
