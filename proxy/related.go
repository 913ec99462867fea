package proxy

import (
	"bytes"
	"io"
	"os"

	"soapway/soapcodec"
	"soapway/xmlstream"
)

// related reads a message with attachments (MTOM, SOAP with Attachments) and
// gives it as it goes on: every octet as it came, but for those of the root that
// a route changes or whose charset is converted. Reading checks: the structure
// of the package, and the envelope in its root. It ends in io.EOF when all of
// the message was good, else in the error of the message or of the source.
//
// It holds nothing back; [pass] does. In memory it has one read of the source,
// and of a root that changes what the decoder has not settled, so that it costs
// the same for any size of any part.
type related struct {
	pkg   *soapcodec.Package
	dec   *soapcodec.Decoder
	lim   Limits
	dir   string // where a root is spooled whose new length must be known first
	ct    soapcodec.ContentType
	edits bool // the decoder may make edits
	// canonical asks for the canonical form of the root; canonized tells that it
	// is made, as no signature forbids it.
	canonical, canonized bool
	to                   soapcodec.Version // that the root is translated to, see edits; V0 = none

	state  rootState
	out    []byte // not given yet; dies at the next step
	err    error  // sticky; io.EOF when all was good
	rd     *xmlstream.Reader
	inner  io.Reader // of a root that changes: what goes on of it
	forget bool      // nobody wants the octets
	keep   bool      // in kept, the octets of the root that the decoder has read
	kept   tee
	raw    []byte // octets of the root that the decoder has read in this step
	header []byte // of the root, and what the charset was seen by
	room   []byte
	file   *os.File

	sum     *partSum // nil: nobody asks for it
	charset string   // of the root
	agrees  bool     // with all that names it
	octets  int64    // of the root, in UTF-8
	changed bool     // what goes on of the root is not what came
}

type rootState uint8

const (
	rootAhead   rootState = iota
	rootPlain             // its octets go on as they come
	rootChanged           // inner says what goes on
	rootPast
)

// most octets of the fields of a part, where limits.header_bytes says none.
const maxPartHeader = 1 << 20

// newRelated returns a reader of a message whose envelope is decoded under opt.
// Call from or fromBytes next. dec is the caller's.
func newRelated(dec *soapcodec.Decoder, opt soapcodec.Options, lim Limits, dir string) *related {
	dec.SetOptions(opt)
	dec.ResetBytes(nil) // no facts before the root
	return &related{
		pkg: soapcodec.NewPackage(soapcodec.PackageOptions{HeaderBytes: min(lim.HeaderBytes, maxPartHeader)}),
		dec: dec, lim: lim, dir: dir, rd: new(xmlstream.Reader), to: opt.Translate,
	}
}

func (m *related) from(r io.Reader, ct soapcodec.ContentType) *related {
	m.ct = ct
	m.pkg.Reset(r, ct)
	return m
}

func (m *related) fromBytes(doc []byte, ct soapcodec.ContentType) *related {
	m.ct = ct
	m.pkg.ResetBytes(doc, ct)
	return m
}

// Read implements io.Reader.
func (m *related) Read(p []byte) (int, error) {
	for len(m.out) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.step()
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

// check reads to the end and appends what goes on to dst, if that is not nil.
func (m *related) check(dst *buffer) error {
	m.forget = dst == nil
	for m.err == nil {
		m.step()
		if dst != nil {
			dst.b = append(dst.b, m.out...)
		}
	}
	if m.err == io.EOF {
		return nil
	}
	return m.err
}

// head reads until the decoder knows the head of the envelope, which is then in
// kept. Nothing can be read from m afterwards.
func (m *related) head() error {
	m.forget, m.keep = true, true
	for m.err == nil && m.state == rootAhead {
		m.step()
	}
	if m.err != nil {
		return m.err
	}
	return m.dec.Head()
}

// step goes on by one piece of the package or, inside the root, of the envelope.
func (m *related) step() {
	switch m.state {
	case rootPlain:
		m.raw = m.raw[:0]
		err := m.dec.Step()
		m.out = m.raw
		if m.sum != nil {
			m.sum.settle(err == io.EOF)
		}
		m.rootEnds(err)
	case rootChanged:
		n, err := m.inner.Read(m.room)
		m.out = m.room[:n]
		m.rootEnds(err)
	default:
		kind, err := m.pkg.Next()
		if err != nil {
			m.out, m.err = nil, err
			return
		}
		root := kind == soapcodec.PartHeader && m.pkg.Part().Root
		if m.sum != nil {
			m.sum.piece(kind, root, m.pkg.Raw())
		}
		if root {
			m.out, m.err = m.beginRoot()
			return
		}
		m.out = m.pkg.Raw()
	}
}

// rootEnds leaves the root when err is io.EOF. Its transfer encoding must not
// end before its content: what is behind would go by unchecked.
func (m *related) rootEnds(err error) {
	if err != io.EOF {
		m.err = err
		return
	}
	m.state = rootPast
	var one [1]byte
	if n, err := m.pkg.Read(one[:]); n > 0 {
		m.err = &soapcodec.Error{Code: soapcodec.CodePackage, Err: errTrailing}
	} else if err != io.EOF {
		m.err = err
	}
}

// rootSource is the content of the root as it came, kept for m.out.
type rootSource struct{ m *related }

func (s rootSource) Read(p []byte) (int, error) {
	n, err := s.m.pkg.Read(p)
	if s.m.state == rootAhead || s.m.state == rootPlain && !s.m.forget {
		s.m.raw = append(s.m.raw, p[:n]...)
	}
	return n, err
}

// beginRoot finds out how the root is written and returns its header as it goes
// on, with what was read of its content.
func (m *related) beginRoot() ([]byte, error) {
	part := m.pkg.Part()
	header := append(m.header[:0], m.pkg.Raw()...)
	m.header, m.raw = header, m.raw[:0]
	src, err := part.Decoded(rootSource{m})
	if err != nil {
		return nil, err
	}
	label := part.Type.Charset
	if err := m.rd.Reset(src, label); err != nil {
		return nil, charsetError(err)
	}
	m.charset = m.rd.Charset()
	m.agrees = !part.Plain() || xmlstream.CharsetAgrees(m.raw, label, m.charset)
	change := soapcodec.HeaderChange{Length: -1}
	if label != "" && (m.rd.Converted() || m.rd.Charset() == "utf-8" && label != "utf-8" && label != "utf8") {
		change.Charset = "utf-8" // so that label and octets agree, see call.relabel
		m.changed = true
	}
	var counted io.Reader = &countReader{r: m.rd, n: &m.octets}
	if m.keep {
		m.kept = tee{src: counted, most: m.lim.Buffer, tooMuch: headFault}
		counted = &m.kept
	}
	if !m.edits && !m.rd.Converted() {
		m.state = rootPlain
		if m.sum != nil {
			m.sum.held = tee{src: counted, most: unlimited, gone: m.sum.body.add}
			counted = &m.sum.held
		}
		m.dec.Reset(counted)
		m.out = header
		if change.Charset != "" {
			m.out = soapcodec.AppendHeader(nil, header, change)
		}
		return append(m.out, m.raw...), nil
	}
	m.state = rootChanged
	p := &pass{dec: m.dec, edits: m.edits}
	p.tee = tee{src: counted, most: m.lim.held(m.lim.Buffer), tooMuch: headFault}
	if m.sum != nil {
		p.tee.gone = m.sum.body.add
	}
	m.dec.Reset(&p.tee)
	m.inner, m.room = p, make([]byte, chunk)
	if m.canonical || m.edits && m.to != soapcodec.V0 {
		if err := m.dec.Head(); err != nil {
			return nil, err
		}
	}
	if v := m.dec.Facts().Version; m.edits && m.to != soapcodec.V0 && m.to != v {
		change.Version = m.to
	}
	if m.canonical {
		// A signature that turns up in Body is too late to change that.
		if m.canonized = !m.dec.Facts().NormalizeSkipped; m.canonized {
			m.inner = newCanonicalReader(p)
			if label != "" && label != "utf-8" {
				change.Charset = "utf-8" // see call.relabelCanonical
			}
		}
	}
	switch {
	case !part.Plain():
		change.Encoding = "binary"
	case m.rd.Converted() && part.Encoding == "7bit":
		change.Encoding = "8bit"
	}
	m.changed = true
	if part.Length != "" && !m.forget {
		n, err := m.measure(m.inner)
		if err != nil {
			return nil, err
		}
		if p.edited || m.canonized || m.rd.Converted() || !part.Plain() {
			change.Length = n
		}
	}
	return soapcodec.AppendHeader(nil, header, change), nil
}

// measure reads what goes on of the root, in memory or into a file, because its
// header, which goes first, has its length.
func (m *related) measure(r io.Reader) (int64, error) {
	buf := newBuffer()
	defer buf.release()
	whole, err := buf.fill(r, m.lim.Buffer, -1)
	if err != nil {
		return 0, err
	}
	prefix := buf.detach()
	if whole {
		m.inner = bytes.NewReader(prefix)
		return int64(len(prefix)), nil
	}
	f, n, err := spool(m.dir, io.MultiReader(bytes.NewReader(prefix), r))
	if err != nil {
		return 0, err
	}
	m.file, m.inner = f, io.NewSectionReader(f, 0, n)
	return n, nil
}

// close lets go of what was spooled.
func (m *related) close() {
	if m.file != nil {
		m.file.Close()
	}
}

// relatedBody is a related that closes what it reads.
type relatedBody struct {
	*related
	body io.Closer
}

// Close implements io.Closer.
func (b *relatedBody) Close() error {
	b.close()
	return b.body.Close()
}

type countReader struct {
	r io.Reader
	n *int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += int64(n)
	return n, err
}

// recorder keeps what is read through it in a file without a name, so that it can
// be read once more.
type recorder struct {
	src io.Reader
	dir string
	f   *os.File
	n   int64
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if n == 0 {
		return n, err
	}
	if r.f == nil {
		f, bad := newSpool(r.dir)
		if bad != nil {
			return 0, bad
		}
		r.f = f
	}
	if _, bad := r.f.Write(p[:n]); bad != nil {
		return 0, &spoolError{bad}
	}
	r.n += int64(n)
	return n, err
}

// again reads what was recorded, and then the rest of the source.
func (r *recorder) again() io.Reader {
	if r.f == nil {
		return r.src
	}
	return io.MultiReader(io.NewSectionReader(r.f, 0, r.n), r.src)
}

func (r *recorder) close() {
	if r.f != nil {
		r.f.Close()
	}
}
