package soapcodec

import (
	"errors"
	"io"

	"soapway/xmlstream"
)

// ErrNotPackage is returned for a Content-Type that is not that of a package,
// see [ContentType.IsPackage].
var ErrNotPackage = errors.New("soapcodec: not a multipart/related message with a root of SOAP")

// PackageReader reads a message with attachments part by part, in bounded
// memory, and checks the envelope in its root on the way (MTOM, XOP 1.0, SOAP
// with Attachments). It is for one goroutine.
//
//	p, err := soapcodec.NewPackageReader(r, contentType, soapcodec.Options{}, soapcodec.PackageOptions{})
//	for {
//		part, err := p.Next()
//		if err == io.EOF {
//			break // all of it was good
//		}
//		… io.Copy(w, p)
//	}
//	p.Facts()
type PackageReader struct {
	pkg   *Package
	dec   *Decoder
	begun bool
	root  bool // the current part is the root
	src   io.Reader
	seen  []byte // octets of the root that dec has taken; Read has given seen[:given]
	given int
	err   error
}

// NewPackageReader returns a reader of the message in r. The error is
// [ErrNotPackage].
func NewPackageReader(r io.Reader, ct ContentType, opt Options, limits PackageOptions) (*PackageReader, error) {
	if !ct.IsPackage() {
		return nil, ErrNotPackage
	}
	p := &PackageReader{pkg: NewPackage(limits), dec: NewDecoder(opt)}
	p.pkg.Reset(r, ct)
	return p, nil
}

// Next goes on to the next part, over what is left of the one before, and
// returns io.EOF behind the last one once the close delimiter and every check
// have passed. Errors are those of [Package.Next] and [Decoder.Step], and sticky.
func (p *PackageReader) Next() (*Part, error) {
	if p.err == nil && p.begun {
		if p.root { // what nobody has read of it is checked all the same
			_, p.err = io.Copy(io.Discard, struct{ io.Reader }{p})
		}
		if p.err == nil {
			_, p.err = io.Copy(io.Discard, struct{ io.Reader }{p.pkg})
		}
	}
	for p.err == nil {
		kind, err := p.pkg.Next()
		if err != nil {
			p.err = err
			break
		}
		if kind != PartHeader {
			continue
		}
		part := p.pkg.Part()
		p.begun, p.root, p.seen, p.given = true, part.Root, p.seen[:0], 0
		switch p.src, err = part.Decoded(p.pkg); {
		case !p.root && (err != nil || p.pkg.opt.Encoded):
			p.src, err = p.pkg, nil
		case err == nil && p.root:
			err = p.beginRoot(part.Type.Charset)
		}
		p.err = err
		if err == nil {
			return part, nil
		}
	}
	return nil, p.err
}

func (p *PackageReader) beginRoot(charset string) error {
	rd, err := xmlstream.NewReader(p.src, charset)
	if err != nil {
		return rootError(err)
	}
	p.dec.Reset(io.TeeReader(rd, (*seenOctets)(&p.seen)))
	return nil
}

// rootError gives a fault of the charset conversion the form of the others.
func rootError(err error) error {
	if _, ours := errors.AsType[*Error](err); ours {
		return err
	}
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
		return &Error{Code: codeOf(se), Err: se}
	}
	return err
}

type seenOctets []byte

func (s *seenOctets) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}

// Read implements io.Reader over the content of the current part, without its
// transfer encoding if that is one of RFC 2045 and Encoded is not set. The root comes as UTF-8: the
// octets that offsets in [Facts] count. io.EOF is the end of the part. That the
// content of another part is not in its transfer encoding is no fault of the
// message, and Next goes on.
func (p *PackageReader) Read(b []byte) (int, error) {
	if p.err != nil || !p.begun {
		return 0, p.err
	}
	if !p.root {
		return p.src.Read(b)
	}
	for p.given == len(p.seen) {
		p.seen, p.given = p.seen[:0], 0
		if err := p.dec.Step(); err == io.EOF && len(p.seen) == 0 {
			return 0, io.EOF
		} else if err != nil && err != io.EOF {
			p.err = rootError(err)
			return 0, p.err
		}
	}
	n := copy(b, p.seen[p.given:])
	p.given += n
	return n, nil
}

// Facts are those of the envelope, as far as the root was read; see
// [Decoder.Facts].
func (p *PackageReader) Facts() *Facts { return p.dec.Facts() }

// Dangling returns the xop:Include references of the envelope that name no part.
// Call it behind the last part; both options References must be set.
func (p *PackageReader) Dangling() []string { return p.pkg.Dangling(p.dec.Facts().References) }
