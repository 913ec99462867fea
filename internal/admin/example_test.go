package admin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"soapway/internal/admin"
)

func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := admin.New(ln, admin.Options{Ready: func() []string { return []string{"draining"} }})
	stop, halt := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(stop, context.Background()) }()

	resp, err := http.Get("http://" + s.Addr().String() + "/readyz")
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Printf("%d %s", resp.StatusCode, body)

	halt()
	fmt.Println(<-done)
	// Output:
	// 503 not ready: draining
	// <nil>
}
