package soapcodec_test

import (
	"fmt"
	"io"
	"os"
	"strings"

	"soapway/soapcodec"
)

const order = `<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'>
  <s:Header>
    <a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:depot#Order</a:Action>
  </s:Header>
  <s:Body ><d:Order xmlns:d="urn:depot"/></s:Body>
</s:Envelope>`

func Example() {
	d := soapcodec.NewDecoder(soapcodec.Options{})
	d.Reset(strings.NewReader(order))
	if err := d.Head(); err != nil { // enough to choose a route
		fmt.Println(err)
		return
	}
	f := d.Facts()
	fmt.Println(f.Version, f.Operation, f.Action)
	fmt.Println(d.Finish()) // every octet is checked
	// Output:
	// 1.2 {urn:depot}Order urn:depot#Order
	// <nil>
}

// A fault is answered in the dialect of the message, with the place of what is
// wrong.
func ExampleError_Fault() {
	_, err := soapcodec.Decode([]byte("<Envelope>\n</Envelope>"), soapcodec.Options{})
	if e, ok := err.(*soapcodec.Error); ok {
		f := e.Fault()
		v := soapcodec.FaultVersion(f.Version, "text/xml")
		fmt.Println(f.Status(v), f.ContentType(v), f.Code)
		fmt.Println(f.Reason)
	}
	// Output:
	// 500 text/xml; charset=utf-8 VersionMismatch
	// The message is not in a SOAP version that is accepted here: the root element "Envelope" is not a SOAP Envelope of a known namespace, at line 1, column 1, in "/Envelope".
}

// A message in hand is normalized by applying the edits of one pass.
func ExampleApply() {
	d := soapcodec.NewDecoder(soapcodec.Options{Normalize: soapcodec.Envelope})
	d.ResetBytes([]byte(order))
	if err := d.Finish(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", soapcodec.Apply(nil, []byte(order), d.TakeEdits()))
	// Output:
	// <s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Header><a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:depot#Order</a:Action></s:Header><s:Body><d:Order xmlns:d="urn:depot"/></s:Body></s:Envelope>
}

// A message in passing is copied as far as it is settled.
func ExampleDecoder_Settled() {
	d := soapcodec.NewDecoder(soapcodec.Options{Normalize: soapcodec.Envelope})
	d.Reset(strings.NewReader(order))
	at := int64(0) // octets before it have gone out
	for {
		err := d.Step()
		for _, e := range d.TakeEdits() {
			os.Stdout.WriteString(order[at:e.Start])
			os.Stdout.Write(e.With)
			at = e.End
		}
		if n := d.Settled(); n > at {
			os.Stdout.WriteString(order[at:n])
			at = n
		}
		if err == io.EOF {
			break
		} else if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// <s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Header><a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:depot#Order</a:Action></s:Header><s:Body><d:Order xmlns:d="urn:depot"/></s:Body></s:Envelope>
}

func ExampleParseContentType() {
	ct, err := soapcodec.ParseContentType(`Application/SOAP+XML; charset="UTF-8"; action="urn:depot;op=book"`)
	fmt.Println(ct.Type, ct.Charset, ct.Action, err)
	fmt.Println(soapcodec.WithCharset(`text/xml;charset="ISO-8859-1"; x=1`, "utf-8"))
	// Output:
	// application/soap+xml utf-8 urn:depot;op=book <nil>
	// text/xml;charset="utf-8"; x=1
}

// A message with attachments is read part by part; the envelope in its root is
// checked on the way, whether it is read or not.
func ExamplePackageReader() {
	const contentType = `multipart/related; boundary=b; type="text/xml"; start="<order>"`
	message := strings.ReplaceAll(`--b
Content-ID: <photo+1@depot>

not really a photo
--b
Content-Type: text/xml
Content-ID: <order>

<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><d:Order xmlns:d="urn:depot" photo="cid:photo%2B1%40depot"/></s:Body></s:Envelope>
--b--
`, "\n", "\r\n")

	ct, err := soapcodec.ParseContentType(contentType)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := soapcodec.NewPackageReader(strings.NewReader(message), ct, soapcodec.Options{}, soapcodec.PackageOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		part, err := p.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if !part.Root {
			content, _ := io.ReadAll(p)
			fmt.Printf("%s: %s\n", part.ContentID, content)
		}
	}
	fmt.Println(p.Facts().Version, p.Facts().Operation)
	fmt.Println(soapcodec.ContentIDOf("cid:photo%2B1%40depot"))
	// Output:
	// photo+1@depot: not really a photo
	// 1.1 {urn:depot}Order
	// photo+1@depot true
}
