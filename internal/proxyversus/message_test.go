package proxyversus

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The replies and requests of all rows: an order of about 2.3 KB with the header
// blocks of WS-Addressing, and a small one as controllers send it in frames.
var (
	order = envelope(12)
	small = []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>` +
		`<r:reading xmlns:r="urn:plant"><r:sensor>T-0417</r:sensor><r:value unit="C">73.25</r:value></r:reading></s:Body></s:Envelope>`)
)

func envelope(lines int) []byte {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:o="urn:example:orders">` + "\n" +
		`  <soap:Header>` + "\n" +
		`    <wsa:MessageID>urn:uuid:7d1c2e5a-3b7a-4f9e-9d58-0f0e6f1b2c3d</wsa:MessageID>` + "\n" +
		`    <wsa:To>http://orders.example/orders</wsa:To>` + "\n" +
		`    <wsa:Action>urn:example:orders:Submit</wsa:Action>` + "\n" +
		`  </soap:Header>` + "\n" +
		`  <soap:Body>` + "\n" +
		`    <o:Submit>` + "\n" +
		`      <o:Customer id="C-20417">Harbour Supplies &amp; Sons</o:Customer>` + "\n")
	for i := range lines {
		fmt.Fprintf(&b, `      <o:Line no="%d"><o:Article>A-%05d</o:Article><o:Quantity unit="pc">%d</o:Quantity><o:Price currency="EUR">%d.50</o:Price></o:Line>`+"\n",
			i+1, 10007*(i+3)%99991, i%7+1, 12+i)
	}
	b.WriteString(`    </o:Submit>` + "\n" + `  </soap:Body>` + "\n" + `</soap:Envelope>`)
	return []byte(b.String())
}

// post is a request over HTTP/1.1, reply the backend's answer to it.
func post(path string, body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: orders.example\r\nContent-Type: text/xml; charset=utf-8\r\nSOAPAction: \"urn:example:orders:Submit\"\r\n"+
		"User-Agent: versus\r\nAccept: text/xml\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func answer(body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nServer: versus\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// framed is a message with its length in two octets before it.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
}
