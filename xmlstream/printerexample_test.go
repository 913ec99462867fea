package xmlstream_test

import (
	"errors"
	"fmt"
	"os"

	"soapway/xmlstream"
)

// A document of one's own; namespaces are declared where they are needed.
func ExamplePrinter() {
	p := xmlstream.NewPrinter()
	p.Reset(os.Stdout)
	p.Start("o", "order", "urn:orders")
	p.Attr("", "id", "", "7")
	p.Start("o", "item", "urn:orders")
	p.Text("Bolts & nuts")
	p.End()
	p.Start("", "note", "")
	p.End()
	p.End()
	if err := p.Finish(); err != nil {
		fmt.Println(err)
	}
	// Output: <o:order xmlns:o="urn:orders" id="7"><o:item>Bolts &amp; nuts</o:item><note/></o:order>
}

// What XML has no way to say is refused, not mended.
func ExamplePrintError() {
	p := xmlstream.NewPrinter()
	p.Start("", "a", "")
	p.Text("\x00")
	p.End() // does nothing any more
	_, err := p.Bytes()
	fmt.Println(err)
	fmt.Println(errors.Is(err, xmlstream.ErrCharacter))
	// Output:
	// xmlstream: print in "/a": character not allowed in XML
	// true
}

// Qualified names in content need a declaration that no name asks for.
func ExamplePrinter_Namespace() {
	const xsi = "http://www.w3.org/2001/XMLSchema-instance"
	p := xmlstream.NewPrinter()
	p.Start("", "price", "")
	p.Namespace("xsd", "http://www.w3.org/2001/XMLSchema")
	p.Attr("xsi", "type", xsi, "xsd:decimal")
	p.Text("12.50")
	p.End()
	doc, err := p.Bytes()
	fmt.Println(string(doc), err)
	// Output: <price xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="xsd:decimal">12.50</price> <nil>
}

// An element of another document, octet for octet: what is in force around it
// goes along.
func ExamplePrinter_RawElement() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes([]byte(`<a xmlns="urn:a" xmlns:t="urn:t"><b  type='t:x'>1</b ></a>`))
	for s.Depth() < 2 {
		if _, err := s.Next(); err != nil {
			fmt.Println(err)
			return
		}
	}
	p := xmlstream.NewPrinter()
	p.Reset(os.Stdout)
	p.Start("w", "wrapped", "urn:w")
	if err := p.RawElement(s); err != nil {
		fmt.Println(err)
	}
	p.End()
	if err := p.Finish(); err != nil {
		fmt.Println(err)
	}
	// Output: <w:wrapped xmlns:w="urn:w"><b xmlns="urn:a" xmlns:t="urn:t"  type='t:x'>1</b ></w:wrapped>
}
