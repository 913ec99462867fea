package app

import (
	"fmt"

	"soapway/proxy"
	"soapway/queue"
)

// taking is the stock, if it takes messages.
func (p *depot) taking() (*stock, error) {
	s := p.present.Load()
	if s == nil {
		return nil, proxy.ErrStoreBusy
	}
	if err := s.broken.Load(); err != nil {
		// Also where the store itself would still take them: nobody would deliver.
		return nil, fmt.Errorf("%w: %w", proxy.ErrStoreBusy, *err)
	}
	return s, nil
}

// NewBlob implements [proxy.Enqueuer].
func (p *depot) NewBlob(size int64) (proxy.BlobWriter, error) {
	s, err := p.taking()
	if err != nil {
		return nil, err
	}
	w, err := s.store.NewBlob(size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proxy.ErrStoreBusy, err)
	}
	return blobWriter{w}, nil
}

// blobWriter gives the store's errors the names that the proxy knows. Each of them
// means that nothing is kept.
type blobWriter struct{ queue.BlobWriter }

// Write implements [io.Writer].
func (w blobWriter) Write(p []byte) (int, error) {
	n, err := w.BlobWriter.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", proxy.ErrStoreBusy, err)
	}
	return n, err
}

// Blob implements [proxy.BlobWriter].
func (w blobWriter) Blob() (proxy.Blob, error) {
	b, err := w.BlobWriter.Blob()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proxy.ErrStoreBusy, err)
	}
	return b, nil
}
