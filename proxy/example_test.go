package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"soapway/internal/field"
	"soapway/proxy"
)

// quote is a node that answers every message with the same envelope.
type quote struct{}

func (quote) Send(context.Context, *proxy.Request) (*proxy.Response, error) {
	const answer = `<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><price>7</price></e:Body></e:Envelope>`
	return &proxy.Response{
		Status: 200, Header: field.Of(http.Header{"Content-Type": {"text/xml"}}),
		Body: io.NopCloser(strings.NewReader(answer)), Length: int64(len(answer)),
	}, nil
}
func (quote) Name() string                { return "http://quotes.test/" }
func (quote) InFlight() int64             { return 0 }
func (quote) Probe(context.Context) error { return nil }
func (quote) Close()                      {}

func Example() {
	table, err := proxy.Compile(proxy.TableOptions{Routes: []proxy.Route{{
		Name:    "quotes",
		Match:   proxy.Match{Path: "/quotes"},
		Backend: &proxy.Backend{Name: "quotes", Nodes: []proxy.Node{quote{}}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := proxy.NewHandler(table, proxy.Options{})
	for _, body := range []string{
		`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><ask/></e:Body></e:Envelope>`,
		`<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><ask></e:Body></e:Envelope>`,
	} {
		reply := h.Serve(context.Background(), &proxy.Exchange{
			Method: "POST", Target: "/quotes", Host: "gateway.test",
			Header: field.Of(http.Header{"Content-Type": {"text/xml"}}),
			Body:   strings.NewReader(body), Length: int64(len(body)),
		})
		fmt.Printf("%d %q\n", reply.Status, reply.Code)
		reply.Close()
	}
	// Output:
	// 200 ""
	// 500 "NotWellFormed"
}
