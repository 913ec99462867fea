package soapcodec

import (
	"errors"
	"io"

	"soapway/xmlstream"
)

// PackageOptions bound a package; the zero value has the defaults.
type PackageOptions struct {
	// Parts is how many parts there may be. Default 10000.
	Parts int
	// HeaderBytes is how many octets the fields of one part may have. Default
	// 64 KiB.
	HeaderBytes int64
	// Encoded makes a [PackageReader] give the parts but the root as they were
	// sent, in their transfer encoding.
	Encoded bool
	// References makes the package keep the Content-IDs of all parts, at most
	// 1 MiB of them, for [Package.Dangling].
	References bool
}

func (o PackageOptions) withDefaults() PackageOptions {
	if o.Parts <= 0 {
		o.Parts = 10_000
	}
	if o.HeaderBytes <= 0 {
		o.HeaderBytes = 64 << 10
	}
	return o
}

// maxReferences bounds the xop:Include references and the Content-IDs that are
// kept of one message, in octets.
const maxReferences = 1 << 20

const limitReferences = "octets of references to parts"

var (
	errNoRoot   = errors.New("no part has the Content-ID that start names")
	errNoParts  = errors.New("there is no part")
	errTwoRoots = errors.New("two parts have the Content-ID that start names")
)

// ErrRootType is in the [PackageError] for a root that is no envelope by its
// media type: it is not text/xml, application/soap+xml, application/xml, or
// application/xop+xml around one of these.
var ErrRootType = errors.New("soapcodec: the media type of the root part is not one of SOAP")

// Package takes a multipart/related message apart (RFC 2387, XOP 1.0 §4) and
// knows which part is its root. Like a scanner it is pulled:
//
//	p.Reset(r, contentType)
//	for {
//		kind, err := p.Next()
//		if err == io.EOF {
//			break // complete, with a root and a close delimiter
//		}
//		… p.Raw()
//	}
//
// The Raws of all pieces are the message, octet for octet. Content is not looked
// at; [PackageReader] also checks the envelope. A Package holds one read or one
// header in memory, whatever the size of the message, is reusable by Reset and
// for one goroutine.
type Package struct {
	sp   splitter
	ct   ContentType
	opt  PackageOptions
	part Part
	root Part // once seen
	seen bool
	err  error

	rest  []byte // of a piece of content that Read has begun
	ahead bool   // Read has met the piece behind the content, of kind next
	next  PartKind

	ids      map[string]struct{}
	idOctets int
}

// NewPackage returns a package; call Reset or ResetBytes before use.
func NewPackage(opt PackageOptions) *Package {
	p := new(Package)
	p.SetOptions(opt)
	return p
}

// SetOptions replaces the options; call before Reset.
func (p *Package) SetOptions(opt PackageOptions) {
	p.opt = opt.withDefaults()
	p.sp.maxParts, p.sp.maxHeader = p.opt.Parts, p.opt.HeaderBytes
}

// Reset starts a new message that is read from r. ct must be one of which
// [ContentType.IsPackage] is true.
func (p *Package) Reset(r io.Reader, ct ContentType) {
	p.reset(ct)
	p.sp.reset(r, ct.Boundary)
}

// ResetBytes starts a new message that is whole in doc, which must not change
// until the next Reset.
func (p *Package) ResetBytes(doc []byte, ct ContentType) {
	p.reset(ct)
	p.sp.resetBytes(doc, ct.Boundary)
}

func (p *Package) reset(ct ContentType) {
	p.ct = ct
	p.part, p.root, p.seen, p.err = Part{}, Part{}, false, nil
	p.rest, p.ahead = nil, false
	clear(p.ids)
	p.idOctets = 0
}

// Next finds the next piece. It returns io.EOF behind the epilogue of a message
// that has its root and its close delimiter, an [*Error] with a [*PackageError]
// for what is wrong, and errors of the reader untouched. All are sticky.
func (p *Package) Next() (PartKind, error) {
	if p.ahead {
		p.ahead = false
		return p.next, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	kind, err := p.sp.next()
	if err == nil {
		switch kind {
		case PartHeader:
			err = p.header()
		case CloseDelimiter:
			if p.sp.parts == 0 {
				err = p.sp.fault(0, errNoParts)
			} else if !p.seen {
				err = p.sp.fault(0, errNoRoot)
			}
		}
	}
	p.err = err
	return kind, err
}

// Read implements io.Reader over the content of the part whose header came last,
// as it was sent, and returns io.EOF at its end; Next then goes on with the piece
// behind it.
func (p *Package) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.ahead {
			return 0, io.EOF
		}
		kind, err := p.Next()
		if err != nil {
			return 0, err // never io.EOF: content ends in a delimiter
		}
		if kind != PartContent {
			p.ahead, p.next = true, kind
			return 0, io.EOF
		}
		p.rest = p.Raw()
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// header reads the fields of a part and decides whether it is the root: the one
// that start names, else the first (RFC 2387 §3.2).
func (p *Package) header() error {
	part, err := parsePart(p.sp.raw())
	if err != nil {
		return p.sp.fault(0, err)
	}
	part.Index = p.sp.parts - 1
	part.Root = part.Index == 0
	if p.ct.Start != "" {
		part.Root = part.ContentID == p.ct.Start
	}
	p.part = part
	if p.opt.References {
		if err := p.keep(part.ContentID); err != nil {
			return err
		}
	}
	if !part.Root {
		return nil
	}
	if p.seen {
		return p.sp.fault(0, errTwoRoots)
	}
	p.seen, p.root = true, part
	if !p.rootType(&part) {
		return p.sp.fault(0, ErrRootType)
	}
	return nil
}

// rootType judges the media type of the root. A root without one has that of
// the package's type parameter; a missing type of an envelope in XOP form is
// taken leniently, since the envelope tells its version.
func (p *Package) rootType(root *Part) bool {
	t := root.Type
	if root.TypeField == "" {
		return true // of type, which ContentType.IsPackage has judged
	}
	if t.Type == typeXOP {
		return t.TypeParam == "" || ContentType{Type: t.TypeParam}.IsSOAP()
	}
	return isRootType(t.Type)
}

func (p *Package) keep(id string) error {
	if id == "" {
		return nil
	}
	if p.ids == nil {
		p.ids = make(map[string]struct{})
	}
	if _, known := p.ids[id]; known {
		return nil
	}
	if p.idOctets += len(id); p.idOctets > maxReferences {
		return p.sp.limit(0, limitReferences, maxReferences)
	}
	p.ids[id] = struct{}{}
	return nil
}

// Raw is the current piece. It dies at the next call of Next.
func (p *Package) Raw() []byte { return p.sp.raw() }

// Offset is where the current piece begins in the message.
func (p *Package) Offset() int64 { return p.sp.offset() }

// Part is the part that the last [PartHeader] began. Its strings may be kept.
func (p *Package) Part() *Part { return &p.part }

// Parts is how many parts have begun.
func (p *Package) Parts() int { return p.sp.parts }

// Root is the root part, false as long as it has not begun.
func (p *Package) Root() (Part, bool) { return p.root, p.seen }

// BareLF reports delimiter lines that end in LF alone, which RFC 2046 §4.1.1
// does not allow.
func (p *Package) BareLF() bool { return p.sp.lf }

// Action is the action of the binding as the package tells it: that of its own
// media type or start-info, else of its root's, else of the type in that.
func (p *Package) Action() (action string, ok bool) {
	if p.ct.HasAction || !p.seen {
		return p.ct.Action, p.ct.HasAction
	}
	return p.root.Type.Action, p.root.Type.HasAction
}

// Dangling returns those of the references that name no part: cid URLs whose
// Content-ID no part has, and what is no cid URL, which XOP 1.0 §4.1 asks for.
// Call it at the end of the message; it needs the option References.
func (p *Package) Dangling(references []string) (list []string) {
	for _, r := range references {
		id, ok := ContentIDOf(r)
		if _, known := p.ids[id]; !ok || !known {
			list = append(list, r)
		}
	}
	return list
}

// reference notes an xop:Include (XOP 1.0 §2.1). That it stands alone in its
// parent is for the receiver to ask.
func (d *Decoder) reference() error {
	if !d.sc.Name().Is(nsXOP, "Include") {
		return nil
	}
	attrs := d.sc.Attrs()
	for i := range attrs {
		a := &attrs[i]
		if len(a.Name.Space) != 0 || string(a.Name.Local) != "href" {
			continue
		}
		d.value = a.AppendValue(d.value[:0])
		if d.refOctets += len(d.value) + refOverhead; d.refOctets > maxReferences {
			return d.reject(CodeLimit, &xmlstream.LimitError{Limit: limitReferences, Max: maxReferences})
		}
		d.facts.References = append(d.facts.References, string(d.value))
	}
	return nil
}

// refOverhead is what a reference costs beside its octets.
const refOverhead = 16

const nsXOP = "http://www.w3.org/2004/08/xop/include"
