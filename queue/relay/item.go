package relay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"soapway/queue"
)

// The bounds of a batch.
const (
	// MaxItems is how many items it has at most.
	MaxItems = 1024
	// MaxOctets is how many octets of bodies that are held in memory it has at most.
	MaxOctets = 32 << 20
	// inlineMost is the largest body that is held in memory.
	inlineMost = 1 << 20
	// maxHead bounds all of an item but its body.
	maxHead = 512 << 10
	// maxFields bounds its fields.
	maxFields = 4096
	// MaxTrace is how many sites an item passes at most.
	MaxTrace = 16
)

// ErrBatch: what has come is no batch, or breaks a bound.
var ErrBatch = errors.New("relay: not a batch")

// An Item is a message on its way over a link. A batch is
//
//	"SWB1" SITE STORE  then, for each item,  1 LENGTH HEAD BODY CRC  and at its end  0
//
// with texts as a length and octets, numbers as varints (encoding/binary), LENGTH
// the octets of HEAD, and CRC the CRC-32C of HEAD and BODY in four octets, the
// highest first. HEAD has, in this order: the size of BODY, flags (1 possible
// duplicate, 2 a reply is wanted, 4 it is a reply, 8 it is behind), epoch, class, number, the link of
// the label, id, route, path behind that of the route, query, whether there is a
// query, host, version of SOAP, action, time of acceptance in nanoseconds since 1970,
// the sites it has passed and the fields, each with their count before them.
type Item struct {
	// Label is its number; Origin is filled in by the site that it comes to.
	Label queue.Label

	ID    string // of the message, the same at all sites
	Route string // at the far site

	// Tail and Query are what the caller's target had besides the path of the route.
	Tail, Query string
	HasQuery    bool
	Host        string // that the caller asked for
	SOAP        string // version of the envelope
	Action      string
	Accepted    time.Time

	// Doubt says that it may have been processed before.
	Doubt bool
	// WantsReply says that the answer to it is to come back, and Reply that it is
	// one, to the message with this id.
	WantsReply, Reply bool

	// Behind says that it must not be stored unless the one before it in the batch is, or
	// was before: they are of one key.
	Behind bool

	// Trace are the sites it has passed, the sender last.
	Trace []string

	// Fields are header fields with their values.
	Fields [][2]string

	// Body has a body of up to 1 MiB, and Open a larger one, of Size octets.
	Body []byte
	Size int64
	Open func() (io.ReadCloser, error)
}

const magic = "SWB1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (it *Item) appendHead(b []byte) []byte {
	flags := uint64(0)
	for i, on := range [...]bool{it.Doubt, it.WantsReply, it.Reply, it.Behind} {
		if on {
			flags |= 1 << i
		}
	}
	for _, n := range [...]uint64{uint64(it.Size), flags, it.Label.Epoch, uint64(it.Label.Class), it.Label.N} {
		b = binary.AppendUvarint(b, n)
	}
	for _, s := range [...]string{it.Label.Link, it.ID, it.Route, it.Tail, it.Query} {
		b = appendText(b, s)
	}
	has := byte(0)
	if it.HasQuery {
		has = 1
	}
	b = append(b, has)
	for _, s := range [...]string{it.Host, it.SOAP, it.Action} {
		b = appendText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(max(0, it.Accepted.UnixNano())))
	b = binary.AppendUvarint(b, uint64(len(it.Trace)))
	for _, s := range it.Trace {
		b = appendText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(it.Fields)))
	for _, f := range it.Fields {
		b = appendText(appendText(b, f[0]), f[1])
	}
	return b
}

// head is who sends a batch.
type head struct{ site, store string }

// writeBatch writes a batch.
func writeBatch(w io.Writer, from head, items []*Item) error {
	b := appendText(appendText([]byte(magic), from.site), from.store)
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, it := range items {
		if err := it.write(w); err != nil {
			return err
		}
	}
	_, err := w.Write([]byte{0})
	return err
}

func (it *Item) write(w io.Writer) error {
	text := it.appendHead(make([]byte, 0, 1024))
	b := append(binary.AppendUvarint([]byte{1}, uint64(len(text))), text...)
	if _, err := w.Write(b); err != nil {
		return err
	}
	sum := crc32.Checksum(text, castagnoli)
	if it.Open == nil {
		sum = crc32.Update(sum, castagnoli, it.Body)
		if _, err := w.Write(it.Body); err != nil {
			return err
		}
	} else if err := it.writeLarge(w, &sum); err != nil {
		return err
	}
	return binary.Write(w, binary.BigEndian, sum)
}

// errSource wraps what keeps the body of an item from being read.
type errSource struct{ error }

func (e errSource) Unwrap() error { return e.error }

func (it *Item) writeLarge(w io.Writer, sum *uint32) error {
	r, err := it.Open()
	if err != nil {
		return errSource{err}
	}
	defer r.Close()
	buf := make([]byte, 64<<10)
	left := it.Size
	for {
		n, err := r.Read(buf)
		if left -= int64(n); left < 0 || err == io.EOF && left > 0 {
			return errSource{io.ErrUnexpectedEOF}
		}
		*sum = crc32.Update(*sum, castagnoli, buf[:n])
		if _, e := w.Write(buf[:n]); e != nil {
			return e
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return errSource{err}
		}
	}
}

// batchReader reads a batch item by item.
type batchReader struct {
	r      *bufio.Reader
	from   head
	items  int
	octets int64
	large  *largeBody // of the item before, if it had one
}

// readBatch reads the beginning of a batch.
func readBatch(r io.Reader) (*batchReader, error) {
	b := &batchReader{r: bufio.NewReaderSize(r, 64<<10)}
	text := make([]byte, len(magic))
	if _, err := io.ReadFull(b.r, text); err != nil {
		return nil, cutOff(err)
	}
	if string(text) != magic {
		return nil, fmt.Errorf("%w: it begins with %q", ErrBatch, text)
	}
	var err error
	if b.from.site, err = b.text(128); err == nil {
		b.from.store, err = b.text(128)
	}
	return b, err
}

// cutOff is the error of a batch that ends too early.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it is cut off: %w", ErrBatch, io.ErrUnexpectedEOF)
	}
	return err
}

func (b *batchReader) text(most int) (string, error) {
	n, err := binary.ReadUvarint(b.r)
	if err != nil {
		return "", cutOff(err)
	}
	if n > uint64(most) {
		return "", fmt.Errorf("%w: a name of %d octets", ErrBatch, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(b.r, text); err != nil {
		return "", cutOff(err)
	}
	return string(text), nil
}

// next returns the next item, io.EOF at the end of the batch. A larger body than is
// held in memory must be read before the next call.
func (b *batchReader) next() (*Item, error) {
	if b.large != nil {
		if err := b.large.finish(); err != nil {
			return nil, err
		}
		b.large = nil
	}
	more, err := b.r.ReadByte()
	switch {
	case err != nil:
		return nil, cutOff(err)
	case more == 0:
		if _, err := b.r.ReadByte(); err != nil {
			return nil, err // io.EOF, as it should be, or what it broke off by
		}
		return nil, fmt.Errorf("%w: something follows it", ErrBatch)
	case more != 1:
		return nil, fmt.Errorf("%w: mark %d", ErrBatch, more)
	}
	if b.items++; b.items > MaxItems {
		return nil, fmt.Errorf("%w: more than %d items", ErrBatch, MaxItems)
	}
	n, err := binary.ReadUvarint(b.r)
	if err != nil {
		return nil, cutOff(err)
	}
	if n > maxHead {
		return nil, fmt.Errorf("%w: a head of %d octets", ErrBatch, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(b.r, text); err != nil {
		return nil, cutOff(err)
	}
	it, err := parseHead(text)
	if err != nil {
		return nil, err
	}
	if it.Behind && b.items == 1 {
		return nil, fmt.Errorf("%w: its first item is behind another", ErrBatch)
	}
	if err := b.body(it, crc32.Checksum(text, castagnoli)); err != nil {
		return nil, err
	}
	return it, nil
}

// body reads what follows a head.
func (b *batchReader) body(it *Item, sum uint32) error {
	if it.Size > inlineMost {
		l := &largeBody{r: b.r, left: it.Size, sum: sum}
		b.large = l
		opened := false
		it.Open = func() (io.ReadCloser, error) {
			if opened {
				return nil, errors.New("relay: the body of an item was read already")
			}
			opened = true
			return io.NopCloser(l), nil
		}
		return nil
	}
	if b.octets += it.Size; b.octets > MaxOctets {
		return fmt.Errorf("%w: more than %d octets", ErrBatch, MaxOctets)
	}
	it.Body = make([]byte, it.Size)
	if _, err := io.ReadFull(b.r, it.Body); err != nil {
		return cutOff(err)
	}
	return checkSum(b.r, crc32.Update(sum, castagnoli, it.Body))
}

func checkSum(r io.Reader, sum uint32) error {
	var want [4]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return cutOff(err)
	}
	if binary.BigEndian.Uint32(want[:]) != sum {
		return fmt.Errorf("%w: the checksum of an item differs", ErrBatch)
	}
	return nil
}

// largeBody is a body that is read while it is stored. Its last octets come only if
// the checksum is right.
type largeBody struct {
	r    *bufio.Reader
	left int64
	sum  uint32
	err  error // io.EOF once all of it was read and is right
}

func (l *largeBody) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.sum = crc32.Update(l.sum, castagnoli, p[:n])
	l.left -= int64(n)
	switch {
	case l.left == 0:
		if l.err = checkSum(l.r, l.sum); l.err != nil {
			return 0, l.err
		}
		l.err = io.EOF
	case err != nil:
		l.err = cutOff(err)
		return n, l.err
	}
	return n, nil
}

// finish reads what nobody wanted.
func (l *largeBody) finish() error {
	_, err := io.Copy(io.Discard, l)
	return err
}

// headReader reads the parts of a head; the first error stays.
type headReader struct {
	b   []byte
	bad bool
}

func (h *headReader) number() uint64 {
	v, n := binary.Uvarint(h.b)
	if n <= 0 || h.bad {
		h.bad = true
		return 0
	}
	h.b = h.b[n:]
	return v
}

func (h *headReader) text() string {
	n := h.number()
	if h.bad || n > uint64(len(h.b)) {
		h.bad = true
		return ""
	}
	s := string(h.b[:n])
	h.b = h.b[n:]
	return s
}

func (h *headReader) count(most int) int {
	n := h.number()
	if n > uint64(most) {
		h.bad = true
		return 0
	}
	return int(n)
}

func parseHead(b []byte) (*Item, error) {
	h := headReader{b: b}
	size := h.number()
	flags := h.number()
	it := &Item{Size: int64(size)}
	it.Doubt, it.WantsReply, it.Reply, it.Behind = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	it.Label.Epoch = h.number()
	class := h.number()
	it.Label.Class, it.Label.N = uint8(class), h.number()
	for _, s := range [...]*string{&it.Label.Link, &it.ID, &it.Route, &it.Tail, &it.Query} {
		*s = h.text()
	}
	it.HasQuery = h.number() == 1
	for _, s := range [...]*string{&it.Host, &it.SOAP, &it.Action} {
		*s = h.text()
	}
	it.Accepted = time.Unix(0, int64(h.number())).UTC()
	for range h.count(MaxTrace + 1) {
		it.Trace = append(it.Trace, h.text())
	}
	for range h.count(maxFields) {
		it.Fields = append(it.Fields, [2]string{h.text(), h.text()})
	}
	if h.bad || len(h.b) > 0 || size > 1<<50 || class > 255 || flags > 15 {
		return nil, fmt.Errorf("%w: the head of an item cannot be read", ErrBatch)
	}
	if err := it.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	return it, nil
}

// validate checks what is told of an item before anything is made of it.
func (it *Item) validate() error {
	if err := it.Label.Validate(); err != nil {
		return err
	}
	name := func(s string) bool {
		return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
		})
	}
	switch {
	case !name(it.ID):
		return fmt.Errorf("%.40q is no id", it.ID)
	case !it.Reply && !name(it.Route):
		return fmt.Errorf("%.40q is no name of a route", it.Route)
	case len(it.Trace) == 0 || slices.ContainsFunc(it.Trace, func(s string) bool { return !name(s) }):
		return errors.New("it does not say which sites it has passed")
	}
	return nil
}
