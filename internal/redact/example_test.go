package redact_test

import (
	"fmt"

	"soapway/internal/redact"
)

// What a route names is hidden, in any prefix.
func ExampleMask_Document() {
	m := redact.New(redact.Name{Space: "urn:cards", Local: "number"})
	s := m.Document([]byte(`<pay><c:number xmlns:c="urn:cards">4111 1111</c:number><sum>7</sum></pay>`), "text/xml")
	fmt.Printf("%s (%d hidden)\n", s.XML, s.Hidden)
	// Output: <pay><c:number xmlns:c="urn:cards">***</c:number><sum>7</sum></pay> (1 hidden)
}
