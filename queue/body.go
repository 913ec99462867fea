package queue

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The versions of a record. One whose body does not stand in it as it is has the
// higher one: an earlier program must not take it for the body.
const (
	recordPlain = 1
	recordForm  = 2
)

// packFrom is the smallest body that is compressed. XML becomes a tenth or less of it; storing
// one of 32 KiB took 0.66 ms where it took 1.2 ms as it is, of 128 KiB 1.7 where it took
// 3.5, while one of 2 to 8 KiB costs 23 to 60 µs of compressing, more than the log
// takes for it (BenchmarkPutBodies, BenchmarkPack).
const packFrom = 16 << 10

// form is how the body of a message stands in its record.
type form struct {
	meta  int    // octets of Meta
	plain int    // octets of the body, where it is compressed
	zstd  bool   // it is
	blob  *claim // it is a file
	err   error
}

// size is the number of octets of the body in a record with so many octets behind
// Meta.
func (f *form) size(stored int) int64 {
	switch {
	case f.blob != nil:
		return f.blob.size
	case f.zstd:
		return int64(f.plain)
	}
	return int64(stored)
}

// claimed is the name of the file that has the body, "" if it stands in the record.
func (f *form) claimed() string {
	if f.blob == nil {
		return ""
	}
	return f.blob.name
}

// option reads an option of a record that tells how the body stands in it.
func (f *form) option(name, value string) {
	switch name {
	case "zstd":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			f.err = fmt.Errorf("%w: zstd=%q", errFormat, cut(value, 20))
		}
		f.plain, f.zstd = int(n), true
	case "blob":
		c, err := parseClaim(value)
		if err != nil {
			f.err = err
		}
		f.blob = &c
	}
}

// packed is the body of a message as its record has it.
type packed struct {
	data []byte
	form form
}

// pack makes the body of m as its record is to have it.
func pack(m *Message) (p packed, err error) {
	if m.Blob != nil {
		b, ok := m.Blob.(*storedBlob)
		if !ok {
			return p, errors.New("queue: the body is not in the store")
		}
		p.form.blob = &b.claim
		return p, nil
	}
	p.data = m.Body
	if len(m.Body) >= packFrom {
		// What does not become smaller by an eighth costs more to read than it saves.
		if small := encoder().EncodeAll(m.Body, make([]byte, 0, len(m.Body)-len(m.Body)/8)); len(small) < len(m.Body)-len(m.Body)/8 {
			p.data, p.form.zstd, p.form.plain = small, true, len(m.Body)
		}
	}
	return p, nil
}

func (p *packed) version() int64 {
	if p.form.zstd || p.form.blob != nil {
		return recordForm
	}
	return recordPlain
}

// append appends the option.
func (p *packed) append(b []byte) []byte {
	switch {
	case p.form.zstd:
		b = strconv.AppendInt(append(b, " zstd="...), int64(p.form.plain), 10)
	case p.form.blob != nil:
		b = append(append(b, " blob="...), p.form.blob.option()...)
	}
	return b
}

// unpack gives m the body that its record has.
func (f *form) unpack(m *Message, stored []byte) error {
	switch {
	case f.err != nil:
		return f.err
	case f.blob != nil:
		m.Blob = &storedBlob{claim: *f.blob}
	case f.zstd:
		body, err := decoder().DecodeAll(stored, make([]byte, 0, min(f.plain, maxData)))
		if err != nil {
			return fmt.Errorf("%w: %w", errFormat, err)
		}
		if len(body) != f.plain {
			return fmt.Errorf("%w: a body of %d octets, not %d", errFormat, len(body), f.plain)
		}
		m.Body = body
	default:
		m.Body = stored
	}
	return nil
}

// Both may be used from many goroutines.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(inlineMost))
		if err != nil {
			panic(err) // the options are good
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxData))
		if err != nil {
			panic(err) // the options are good
		}
		return d
	})
)
