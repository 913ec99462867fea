package field_test

import (
	"fmt"

	"soapway/internal/field"
)

func Example() {
	l := field.List{{Name: "Host", Value: "a.example"}, {Name: "Via", Value: "1.1 one"}, {Name: "X-Note", Value: "n"}, {Name: "via", Value: "1.1 two"}}
	l.Extend("Via", "1.1 gateway")
	l.Del("x-note")
	l.Set("Host", "b.example")
	for _, f := range l {
		fmt.Printf("%s: %s\n", f.Name, f.Value)
	}
	// Output:
	// Host: b.example
	// Via: 1.1 one, 1.1 two, 1.1 gateway
}
