package upstream

import (
	"errors"
	"io"
	"testing"

	"soapway/proxy"
)

// TestFramedTakesNoMultipart: a frame cannot tell of attachments, so the message
// was not sent, no retry can mend that, and its body is not touched.
func TestFramedTakesNoMultipart(t *testing.T) {
	n, err := NewFramed(FramedOptions{Address: "192.0.2.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, err = n.Send(t.Context(), &proxy.Request{Multipart: true, Length: 3, Body: func() (io.ReadCloser, error) {
		t.Error("the body was opened")
		return nil, io.EOF
	}})
	sent, ok := errors.AsType[*proxy.SendError](err)
	if !ok || sent.Class != proxy.NotSent || !sent.Permanent || !errors.Is(err, proxy.ErrMultipart) || n.InFlight() != 0 {
		t.Errorf("got %v, %d in flight, want a permanent ErrMultipart", err, n.InFlight())
	}
}
