package listen_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"soapway/proxy"
	"soapway/proxy/listen"
)

// upper is a proxy.Server.
type upper struct{}

func (upper) Serve(_ context.Context, ex *proxy.Exchange) *proxy.Reply {
	b, err := io.ReadAll(ex.Body)
	if err != nil {
		return &proxy.Reply{Status: 400, CloseConnection: true}
	}
	s := strings.ToUpper(string(b))
	return &proxy.Reply{Status: 200, Body: strings.NewReader(s), Length: int64(len(s))}
}

func Example() {
	l, err := listen.NewHTTP(listen.HTTPOptions{Name: "main", Address: "127.0.0.1:0"}, upper{})
	if err != nil {
		panic(err)
	}
	if err := l.Listen(); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- l.Run(ctx) }()

	resp, err := http.Post("http://"+l.Addr().String()+"/orders", "text/xml", strings.NewReader("<a/>"))
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(resp.StatusCode, string(body))

	stop()
	fmt.Println(<-stopped)
	// Output:
	// 200 <A/>
	// <nil>
}
