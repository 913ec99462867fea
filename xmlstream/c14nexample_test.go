package xmlstream_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"soapway/xmlstream"
)

// The canonical form of a whole document, written while it is read.
func ExampleCanonicalizer_WriteDocument() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.Reset(strings.NewReader("<?xml version='1.0'?>\n<a  z='1' y=\"2\" xmlns='urn:a'><b/><!-- kept --></a>\n"))
	c := xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{Comments: true})
	if err := c.WriteDocument(os.Stdout, s); err != nil {
		fmt.Println(err)
	}
	// Output: <a xmlns="urn:a" y="2" z="1"><b></b><!-- kept --></a>
}

// The digest of a signed element, made while the message is scanned.
func ExampleCanonicalizer_WriteElement() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes([]byte(`<m xmlns="urn:m" xmlns:u="urn:u"><head/><body u:Id="b1"><pay>7</pay></body></m>`))
	c := xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{Exclusive: true})
	for {
		kind, err := s.Next()
		if err != nil {
			break // io.EOF
		}
		if kind == xmlstream.Start && s.Name().Is("urn:m", "body") {
			digest := sha256.New()
			err = c.WriteElement(io.MultiWriter(digest, os.Stdout), s)
			fmt.Println()
			fmt.Println(base64.StdEncoding.EncodeToString(digest.Sum(nil)), err)
		} else if err := c.Skip(s); err != nil {
			fmt.Println(err) // the inclusive form only
		}
	}
	// Output:
	// <body xmlns="urn:m" xmlns:u="urn:u" u:Id="b1"><pay>7</pay></body>
	// vAJVQwJjuQ20pr4e0V5ex7LUZQbNtR6IMiSKavH4DtY= <nil>
}

// A caller that looks at each token itself appends it.
func ExampleCanonicalizer_Append() {
	s := xmlstream.NewScanner(xmlstream.Limits{})
	s.ResetBytes([]byte(`<a><b x = "&#x41;"/><![CDATA[1<2]]></a>`))
	c := xmlstream.NewCanonicalizer(xmlstream.CanonicalOptions{})
	var out []byte
	for {
		_, err := s.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			out, err = c.Append(out, s)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%s\n", out)
	// Output: <a><b x="A"></b>1&lt;2</a>
}
