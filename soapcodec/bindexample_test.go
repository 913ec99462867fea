package soapcodec_test

import (
	"errors"
	"fmt"
	"time"

	"soapway/soapcodec"
)

type purchase struct {
	XMLName soapcodec.QName `xml:"urn:orders order"`
	ID      string          `xml:"id,attr"`
	Placed  time.Time       `xml:"placed"`
	Lines   []line          `xml:"lines>line"`
	Note    *string         `xml:"note" soap:"nillable"`
}

type line struct {
	SKU   string  `xml:"sku,attr"`
	Count int     `xml:"count"`
	Price float64 `xml:"price"`
}

// The first child of Body becomes a struct.
func ExampleUnmarshal() {
	envelope := []byte(`<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:o="urn:orders"><s:Body>
  <o:order id="7">
    <o:placed>2026-11-30T12:00:00Z</o:placed>
    <o:lines><o:line sku="A-1"><o:count>3</o:count><o:price>12.50</o:price></o:line></o:lines>
  </o:order>
</s:Body></s:Envelope>`)
	var o purchase
	if err := soapcodec.Unmarshal(envelope, &o); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.ID, o.Placed.Format(time.DateOnly), o.Lines)
	// Output: 7 2026-11-30 [{A-1 3 12.5}]
}

// A Fault is an error, told apart from what is wrong with a message.
func ExampleFaultError() {
	envelope := []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>
<s:Fault><faultcode>s:Client</faultcode><faultstring>no such order</faultstring>
<detail><o:missing xmlns:o="urn:orders"><o:id>7</o:id></o:missing></detail></s:Fault>
</s:Body></s:Envelope>`)
	var o purchase
	err := soapcodec.Unmarshal(envelope, &o)
	if fault, ok := errors.AsType[*soapcodec.FaultError](err); ok {
		var missing struct {
			ID string `xml:"id"`
		}
		fmt.Println(fault.Facts.Code.Local, fault.Facts.Reason, fault.Detail(&missing), missing.ID)
	}
	// Output: Client no such order <nil> 7
}

// A value that does not fit is named by its field, with its place.
func ExampleBindError() {
	envelope := []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>
<order xmlns="urn:orders"><lines><line><count>many</count></line></lines></order>
</s:Body></s:Envelope>`)
	var o purchase
	fmt.Println(soapcodec.Unmarshal(envelope, &o))
	// Output: soapcodec: bind purchase.Lines.Count: 2:51 (offset 123) in "/s:Envelope/s:Body/order/lines/line/count": "many": not a number
}

// A struct becomes the child of Body, another one a header block.
func ExampleMarshal() {
	type priority struct {
		XMLName soapcodec.QName `xml:"urn:priority priority"`
		Must    int             `xml:"http://schemas.xmlsoap.org/soap/envelope/ mustUnderstand,attr"`
		Level   int             `xml:",chardata"`
	}
	o := purchase{ID: "7", Lines: []line{{SKU: "A-1", Count: 3, Price: 12.5}}}
	envelope, err := soapcodec.Marshal(soapcodec.V11, &o, priority{Must: 1, Level: 5})
	fmt.Println(string(envelope), err)
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header><priority xmlns="urn:priority" soap:mustUnderstand="1">5</priority></soap:Header><soap:Body><order xmlns="urn:orders" id="7"><placed>0001-01-01T00:00:00Z</placed><lines><line sku="A-1"><count>3</count><price>12.5</price></line></lines><note xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/></order></soap:Body></soap:Envelope> <nil>
}
