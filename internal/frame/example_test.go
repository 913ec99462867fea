package frame_test

import (
	"bytes"
	"fmt"
	"io"

	"soapway/internal/frame"
)

func Example() {
	stream, _ := frame.Append(nil, 2, []byte("<one/>"))
	stream, _ = frame.Append(stream, 2, nil)
	stream, _ = frame.Append(stream, 2, []byte("<two/>"))

	r := frame.NewReader(bytes.NewReader(stream), 2, 1000, 4096)
	for {
		n, err := r.Next()
		if err == io.EOF {
			return
		}
		payload, _ := io.ReadAll(r)
		fmt.Printf("%d %q\n", n, payload)
	}
	// Output:
	// 6 "<one/>"
	// 0 ""
	// 6 "<two/>"
}
