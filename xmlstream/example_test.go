package xmlstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"soapway/xmlstream"
)

// The names and the text of a document, a token at a time.
func ExampleScanner() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes([]byte(`<o:order xmlns:o="urn:orders" id="7"><item>Bolts &amp; nuts</item></o:order>`))
	for {
		kind, err := s.Next()
		if err == io.EOF {
			break // complete and well-formed
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		switch kind {
		case xmlstream.Start:
			fmt.Println("start", s.Name())
			for _, a := range s.Attrs() {
				if !a.IsNamespace() {
					fmt.Println("  with", a.Name, "=", a.Value())
				}
			}
		case xmlstream.Text:
			fmt.Printf("text %s\n", s.AppendText(nil))
		case xmlstream.End:
			fmt.Println("end", s.Name())
		}
	}
	// Output:
	// start {urn:orders}order
	//   with id = 7
	// start item
	// text Bolts & nuts
	// end item
	// end {urn:orders}order
}

// A caller that must answer with a fault needs the place of the error.
func ExampleSyntaxError() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.Reset(strings.NewReader("<Envelope>\n  <Header></Body>"))
	for {
		_, err := s.Next()
		if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
			fmt.Println(se.Line, se.Column, se.Path, errors.Is(err, xmlstream.ErrMismatch))
			return
		}
	}
	// Output: 2 11 /Envelope/Header true
}

// A broken limit names the key of the configuration that sets it.
func ExampleLimitError() {
	s := xmlstream.NewScanner(xmlstream.Limits{Depth: 2})
	s.ResetBytes([]byte("<a><b><c/></b></a>"))
	for {
		_, err := s.Next()
		if le, ok := errors.AsType[*xmlstream.LimitError](err); ok {
			fmt.Println(le.Limit, le.Max)
			return
		}
	}
	// Output: depth 2
}

// The offsets of tokens let a caller copy ranges of the document as they are.
func ExampleScanner_Raw() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	doc := []byte("<a><b  c = '1' >x</b ><!-- kept --></a>")
	s.ResetBytes(doc)
	for {
		kind, err := s.Next()
		if err != nil {
			break
		}
		if kind == xmlstream.Start && s.Depth() == 2 {
			fmt.Printf("%d-%d %s\n", s.Offset(), s.InputOffset(), s.Raw())
		}
	}
	// Output: 3-16 <b  c = '1' >
}

// A document in another charset is converted; its declaration follows.
func ExampleNewReader() {
	doc := "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9</a>"
	r, err := xmlstream.NewReader(strings.NewReader(doc), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	utf8, err := io.ReadAll(r)
	fmt.Println(r.Charset(), string(utf8), err)
	// Output: iso-8859-1 <?xml version='1.0'?><a>é</a> <nil>
}

func ExampleAppendEscapedText() {
	fmt.Println(string(xmlstream.AppendEscapedText(nil, "a < b & c")))
	// Output: a &lt; b &amp; c
}
