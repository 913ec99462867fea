package proxy

import (
	"strings"
	"sync/atomic"

	"soapway/soapcodec"
)

// mediaTypes remembers what the last Content-Type fields have said: callers and
// nodes write the same ones for ever. The zero value is ready, and safe for
// concurrent use.
type mediaTypes [16]atomic.Pointer[mediaType]

type mediaType struct {
	field string
	ct    soapcodec.ContentType
}

// mediaTypeMost bounds the fields that are remembered.
const mediaTypeMost = 128

// parse is [soapcodec.ParseContentType]. Hot path: a field that is remembered
// allocates nothing (TestMediaTypes).
func (m *mediaTypes) parse(field string) (soapcodec.ContentType, error) {
	n := len(field)
	if n == 0 || n > mediaTypeMost {
		return soapcodec.ParseContentType(field)
	}
	slot := &m[(n+int(field[n-1]))%len(m)]
	if known := slot.Load(); known != nil && known.field == field {
		return known.ct, nil
	}
	own := strings.Clone(field) // that of a message is part of its head
	ct, err := soapcodec.ParseContentType(own)
	if err == nil && ct.Boundary == "" { // which is another one in each package
		slot.Store(&mediaType{own, ct})
	}
	return ct, err
}
