package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"soapway/config"
	"soapway/internal/app"
)

// A gateway with the built-in echo service, from configuration to clean stop.
func Example() {
	cfg, err := config.LoadBytes("gateway.yaml", []byte(`
listeners: [{name: web, address: "127.0.0.1:0"}]
admin: {address: "127.0.0.1:0"}
routes: [{name: echo, to: ["builtin:echo"]}]
`), config.Options{})
	if err != nil {
		panic(err) // config.Problems: one line each, with its place
	}
	ready := make(chan struct{})
	gateway, err := app.New(cfg, app.Options{Ready: func() { close(ready) }})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gateway.Run(ctx) }()
	<-ready

	url := "http://" + gateway.Listeners()[0].Address + "/"
	resp, err := http.Post(url, "text/xml", strings.NewReader(
		`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>`))
	if err != nil {
		panic(err)
	}
	reply, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(resp.StatusCode, string(reply))

	stop()
	fmt.Println(<-done)
	// Output:
	// 200 <s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>
	// <nil>
}
