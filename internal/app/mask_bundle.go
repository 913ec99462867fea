package app

import (
	"io"
	"math"

	"soapway/internal/bundle"
	"soapway/internal/redact"
	"soapway/proxy"
	"soapway/queue"
)

// pack hides in m, which is packed from msg, what must not be seen, and says so in
// it. Of a message with attachments that is masked only the root is left, as parts
// may belong to what is hidden. The error is about reading the store.
func (m routeMask) pack(out *bundle.Message, msg *queue.Message) error {
	if key := m.lane(msg.Lane); key != msg.Lane {
		out.OrderKey, out.Masked = bundle.Text(key), true
	}
	meta, fields, err := proxy.MaskStored(msg.Meta, m.field)
	if err == nil && fields > 0 { // one that cannot be read is none that was accepted
		out.Meta, out.Masked = meta, true
	}
	if out.Reply != nil {
		// There is one also where nothing of it can be shown.
		out.Reply = append([]byte{}, m.reply(out.Reply, string(out.ReplyType), msg).XML...)
	}
	contentType := contentTypeOf(msg.Meta)
	if msg.Blob != nil {
		if err := m.packBlob(out, msg.Blob, contentType); err != nil {
			return err
		}
	} else if s := m.Document(msg.Body, contentType); m.changed(&s) {
		out.Envelope, out.Masked = s.XML, true
	}
	if out.Masked {
		// It is not imported. Its hashes are of what is hidden, and who knows all else
		// could try the few values that a number of a customer or a card may have.
		out.Identity = nil
	}
	return nil
}

// changed reports whether s is not the whole message: something is hidden, or
// could be in what is not there.
func (m routeMask) changed(s *redact.Shown) bool {
	return s.Hidden > 0 || s.Err != nil || s.Attachments > 0 && m.Named()
}

// packBlob is pack for a body that is not in memory. It is read as a whole, so that
// it is known to be readable, and how long it is when masked.
func (m routeMask) packBlob(out *bundle.Message, blob queue.Blob, contentType string) error {
	var s redact.Shown
	var size counted
	in := &blobReader{most: math.MaxInt64}
	s.Hidden, s.Attachments, s.Err = in.mask(m.Mask, &size, blob, contentType)
	if in.failed != nil {
		return in.failed
	}
	if s.Err != nil { // it has not been read to its end
		if err := readable(blob); err != nil {
			return err
		}
	}
	if m.changed(&s) {
		out.Body, out.Masked = &maskedBody{m.Mask, blob, contentType, int64(size)}, true
	}
	return nil
}

// counted counts octets.
type counted int64

func (c *counted) Write(b []byte) (int, error) {
	*c += counted(len(b))
	return len(b), nil
}

// maskedBody is a body of the store as it may be shown.
type maskedBody struct {
	mask        *redact.Mask
	blob        queue.Blob
	contentType string
	size        int64
}

var _ bundle.Source = (*maskedBody)(nil)

// Size implements [bundle.Source].
func (b *maskedBody) Size() int64 { return b.size }

// Open implements [bundle.Source].
func (b *maskedBody) Open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	p := &maskedReader{PipeReader: r, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		in := &blobReader{most: math.MaxInt64}
		_, _, _ = in.mask(b.mask, w, b.blob, b.contentType)
		_ = w.CloseWithError(in.failed) // of the content all was told before
	}()
	return p, nil
}

// maskedReader reads while a body is masked.
type maskedReader struct {
	*io.PipeReader
	done chan struct{}
}

// Close ends the masking and waits for that.
func (r *maskedReader) Close() error {
	err := r.PipeReader.Close()
	<-r.done
	return err
}
