package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

const (
	headName     = "export.json"
	endName      = "end.json"
	envelopeName = "envelope"
	replyName    = "reply"
	messageName  = "message.json"
	xml, bin     = ".xml", ".bin"

	// maxJSON bounds the JSON entries: 50 attempts with their reasons, fields of a
	// request, and a thousand messages that were left out.
	maxJSON = 4 << 20
	// maxPadding is what may follow the end of an archive: programs fill the last record.
	maxPadding = 1 << 20
)

func dirName(n int) string { return fmt.Sprintf("%08d/", n) }

// Options are the limits of a Reader; the zero value works.
type Options struct {
	// MaxEnvelope and MaxReply bound the files of a message. Default 64 MiB each.
	MaxEnvelope, MaxReply int64
	// Spool makes a place for an envelope of more than 1 MiB. Default: memory.
	Spool func(size int64) (Spool, error)
}

// inlineMost is the most octets of an envelope that are never spooled.
const inlineMost = 1 << 20

// Reader reads a bundle.
type Reader struct {
	Head Head
	End  End // once Next has returned io.EOF

	opt Options
	in  *counter
	tar *tar.Reader

	previous string   // digest of the last JSON entry
	n        int      // messages read
	ahead    *Message // read, and not yet covered by what comes behind it
	err      error    // of the last Next
}

// counter counts the octets read and remembers whether the stream has ended.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// NewReader reads the beginning of a bundle. Its errors, and those of Next, are
// [Error].
func NewReader(r io.Reader, opt Options) (*Reader, error) {
	if opt.MaxEnvelope <= 0 {
		opt.MaxEnvelope = 64 << 20
	}
	if opt.MaxReply <= 0 {
		opt.MaxReply = 64 << 20
	}
	in := &counter{r: r}
	b := &Reader{opt: opt, in: in, tar: tar.NewReader(in)}
	h, err := b.next(headName)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && (errors.Is(e.Err, ErrEntry) || errors.Is(e.Err, ErrTruncated)) {
			e.Err = ErrFormat
		}
		return nil, err
	}
	if err := b.json(h, &b.Head); err != nil {
		return nil, err
	}
	switch {
	case b.Head.Format != Format:
		return nil, b.bad(headName, ErrFormat)
	case b.Head.Version > Version:
		return nil, b.bad(headName, fmt.Errorf("%w: %d", ErrVersion, b.Head.Version))
	case b.Head.Version < 1:
		return nil, b.bad(headName, ErrFormat)
	}
	return b, nil
}

func (b *Reader) bad(entry string, err error) error { return &Error{entry, b.in.n, err} }

// Next returns the next message, whole and checked, and io.EOF once the end has
// been read and fits all that came before.
func (b *Reader) Next() (*Message, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.ahead == nil {
		if b.ahead, b.err = b.message(); b.err != nil {
			return nil, b.err
		}
	}
	m := b.ahead
	if b.ahead, b.err = b.message(); b.err != nil && b.err != io.EOF {
		m.drop()
		return nil, b.err
	}
	return m, nil
}

// Close lets go of what Next has not returned.
func (b *Reader) Close() {
	if b.ahead != nil {
		b.ahead.drop()
	}
}

// drop lets go of the envelope of a message that nobody gets.
func (m *Message) drop() {
	if m.Spooled != nil {
		_ = m.Spooled.Close()
	}
}

func (b *Reader) message() (_ *Message, err error) {
	dir := dirName(b.n + 1)
	h, err := b.next(dir+envelopeName+xml, dir+envelopeName+bin, endName)
	if err != nil {
		return nil, err
	}
	if h.Name == endName {
		return nil, b.finish(h)
	}
	m := &Message{}
	defer func() {
		if err != nil {
			m.drop()
		}
	}()
	envelope, err := b.envelope(h, m)
	if err != nil {
		return nil, err
	}
	if h, err = b.next(dir+messageName, dir+replyName+xml, dir+replyName+bin); err != nil {
		return nil, err
	}
	var reply []byte
	if h.Name != dir+messageName {
		if reply, err = b.content(h, b.opt.MaxReply); err != nil {
			return nil, err
		}
		if h, err = b.next(dir + messageName); err != nil {
			return nil, err
		}
	}
	previous := b.previous
	if err := b.json(h, m); err != nil {
		return nil, err
	}
	if m.Previous != previous {
		return nil, b.bad("before "+h.Name, ErrDamaged)
	}
	m.Reply = reply
	if m.Files.Envelope != envelope {
		return nil, b.bad(dir+envelopeName, ErrDamaged)
	}
	if (m.Files.Reply != nil) != (reply != nil) || reply != nil && !m.Files.Reply.is(reply) {
		return nil, b.bad(dir+replyName, ErrDamaged)
	}
	b.n++
	return m, nil
}

// envelope reads the envelope of m into memory or to where it is spooled.
func (b *Reader) envelope(h *tar.Header, m *Message) (f File, err error) {
	if h.Size <= inlineMost || b.opt.Spool == nil || h.Size > b.opt.MaxEnvelope {
		m.Envelope, err = b.content(h, b.opt.MaxEnvelope)
		return fileOf(m.Envelope), err
	}
	if m.Spooled, err = b.opt.Spool(h.Size); err != nil {
		m.Spooled = nil
		return f, b.bad(h.Name, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(m.Spooled, sum), b.tar)
	if err == nil && n != h.Size {
		err = ErrTruncated
	}
	if err != nil {
		return f, b.bad(h.Name, cause(err))
	}
	return File{n, hex.EncodeToString(sum.Sum(nil))}, nil
}

func (f *File) is(b []byte) bool { return *f == fileOf(b) }

// finish reads the end and returns io.EOF if all is as it says.
func (b *Reader) finish(h *tar.Header) error {
	previous := b.previous
	if err := b.json(h, &b.End); err != nil {
		return err
	}
	switch {
	case b.End.Messages != b.n:
		return b.bad(endName, fmt.Errorf("%w: it says %d, there are %d", ErrCount, b.End.Messages, b.n))
	case b.End.Previous != previous:
		return b.bad("before "+endName, ErrDamaged)
	}
	if _, err := b.tar.Next(); err == nil {
		return b.bad("behind "+endName, ErrTrailing)
	} else if err != io.EOF {
		return b.bad("behind "+endName, cause(err))
	}
	rest, err := io.ReadAll(io.LimitReader(b.in, maxPadding+1))
	switch {
	case err != nil:
		return b.bad("behind "+endName, err)
	case len(rest) > maxPadding || len(bytes.Trim(rest, "\x00")) > 0:
		return b.bad("behind "+endName, ErrTrailing)
	}
	return io.EOF
}

// next reads the header of an entry, which must have one of these names.
func (b *Reader) next(names ...string) (*tar.Header, error) {
	h, err := b.tar.Next()
	if err == io.EOF {
		return nil, b.bad(names[0], ErrTruncated)
	}
	if err != nil {
		return nil, b.bad(names[0], cause(err))
	}
	if h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0 || h.Linkname != "" {
		return nil, b.bad(quote(h.Name), fmt.Errorf("%w: its type is none that this program writes", ErrEntry))
	}
	if slices.Contains(names, h.Name) {
		return h, nil
	}
	return nil, b.bad(quote(h.Name), fmt.Errorf("%w: %s", ErrEntry, names[0]))
}

// cause names what archive/tar has met.
func cause(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong), errors.Is(err, tar.ErrInsecurePath):
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return err
}

func quote(name string) string {
	if len(name) > 60 {
		name = name[:60]
	}
	return strconv.Quote(name)
}

// content reads an entry. Memory grows with what is there, not with what a header says.
func (b *Reader) content(h *tar.Header, most int64) ([]byte, error) {
	if h.Size > most {
		return nil, b.bad(h.Name, fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, h.Size, most))
	}
	var buf bytes.Buffer
	buf.Grow(int(min(h.Size, 64<<10)) + bytes.MinRead)
	if _, err := buf.ReadFrom(b.tar); err != nil {
		return nil, b.bad(h.Name, cause(err))
	}
	if int64(buf.Len()) != h.Size {
		return nil, b.bad(h.Name, ErrTruncated)
	}
	return append([]byte{}, buf.Bytes()...), nil // not nil, and no larger than it is
}

func (b *Reader) json(h *tar.Header, v any) error {
	doc, err := b.content(h, maxJSON)
	if err != nil {
		return err
	}
	b.previous = digest(doc)
	if err := json.Unmarshal(doc, v); err != nil {
		return b.bad(h.Name, fmt.Errorf("%w: %w", ErrContent, err))
	}
	return nil
}
