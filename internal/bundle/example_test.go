package bundle_test

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"soapway/internal/bundle"
)

func Example() {
	var file bytes.Buffer
	w, err := bundle.NewWriter(&file, bundle.Head{Created: time.Now(), Route: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &bundle.Message{ID: "0190e000-0000-7000-8000-000000000001", Route: "orders", State: "pending", Accepted: time.Now(), Envelope: []byte("<a/>")}
	if err := w.Write(m); err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r, err := bundle.NewReader(&file, bundle.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		m, err := r.Next()
		if err == io.EOF {
			fmt.Println("whole:", r.End.Messages, "message")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s\n", m.State, m.Envelope)
	}
	// Output:
	// pending <a/>
	// whole: 1 message
}
