package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"soapway/soapcodec"
)

// Dedup says which stored messages are the same: those with the same id, of the
// same caller, within Window (SPEC.md §4).
type Dedup struct {
	// By is where the id comes from. The zero value is wsa:MessageID, else the
	// field Idempotency-Key.
	By Key
	// Window is how long after the acceptance of a message another with its id is
	// a repeat. Default 24h.
	Window time.Duration
}

const defaultWindow = 24 * time.Hour

// idempotencyKey is the field that stands for a MessageID where there is none
// (draft-ietf-httpapi-idempotency-key-header). Its value is taken as it is.
const idempotencyKey = "Idempotency-Key"

// Identity tells a store which messages are the same. Key and Sum are the first
// half of a SHA-256 each, for which nobody finds two messages that share one
// without being the same.
type Identity struct {
	Key   [16]byte // of route, caller and id
	Sum   [16]byte // of the content of Body and of the attachments
	Until time.Time
}

// The reasons for which a repeat is not answered like the first.
var (
	// ErrDeadLettered: the message is, or was, a dead letter.
	ErrDeadLettered = errors.New("proxy: the message could not be delivered")
	// ErrOtherContent: another message had this id.
	ErrOtherContent = errors.New("proxy: the id was used for another message")
)

// compileDedup adds to the options what the decoder has to look for.
func compileDedup(d *Dedup, opt *soapcodec.Options) *dedup {
	if d == nil {
		return nil
	}
	c := &dedup{window: d.Window, by: compileKey(d.By, opt)}
	if c.window <= 0 {
		c.window = defaultWindow
	}
	return c
}

// dedup is a Dedup of a compiled route.
type dedup struct {
	by     keyPlace
	window time.Duration
}

// identify finds out what the message is a repeat of, if it can be one of
// anything: a message without an id never is.
//
// content is what is compared of it. Of the envelope that is the content of Body:
// the header of a repeat differs when it is signed anew, and so does the tag of
// Body then, which carries the Id that the signature names.
func (c *call) identify(f *soapcodec.Facts, content func() ([sha256.Size]byte, error)) error {
	d := c.route.dedup
	if d == nil {
		return nil
	}
	source, id := "key", ""
	var err error
	switch {
	case d.by.Source != KeyNone:
		id, err = d.by.value(c)
	case f.MessageIDs > 1:
		return &soapcodec.Fault{Code: soapcodec.CodeInvalidCardinality}
	case f.MessageID != "":
		source, id = "wsa:MessageID", f.MessageID
	default:
		source = idempotencyKey
		id = joined(c.ex.Header.Values(idempotencyKey))
	}
	if err != nil || id == "" {
		return err
	}
	h := sha256.New()
	for _, s := range [...]string{c.route.Name, c.caller, source, id} {
		// Each with its length, so that no two lists make the same octets.
		_ = binary.Write(h, binary.BigEndian, uint64(len(s))) // a hash takes everything
		_, _ = h.Write([]byte(s))
	}
	c.identity = &Identity{Until: c.ex.Received.Add(d.window)}
	copy(c.identity.Key[:], h.Sum(nil))
	sum, err := content()
	copy(c.identity.Sum[:], sum[:])
	return err
}

// sumBody is the content of a message without attachments.
func sumBody(doc []byte, f *soapcodec.Facts) func() ([sha256.Size]byte, error) {
	return func() ([sha256.Size]byte, error) { return sha256.Sum256(doc[f.BodyStart:f.BodyEnd]), nil }
}

// sumPackage is the content of a message with attachments, which has passed every
// check: the content of Body, then that of each part but the root, in their
// order. Boundaries and fields of parts do not count: they are made anew.
func (c *call) sumPackage(doc []byte) func() ([sha256.Size]byte, error) {
	return func() (sum [sha256.Size]byte, err error) {
		p, err := soapcodec.NewPackageReader(bytes.NewReader(doc), c.ct, c.route.decode, soapcodec.PackageOptions{
			HeaderBytes: min(c.route.limits.HeaderBytes, maxPartHeader), Encoded: true,
		})
		if err != nil {
			return sum, err
		}
		var root bytes.Buffer
		parts := sha256.New()
		for {
			part, err := p.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return sum, err
			}
			if part.Root {
				_, err = root.ReadFrom(p)
			} else {
				one := sha256.New()
				_, err = io.Copy(one, p)
				_, _ = parts.Write(one.Sum(nil))
			}
			if err != nil {
				return sum, err
			}
		}
		f := p.Facts()
		body := sha256.Sum256(root.Bytes()[f.BodyStart:f.BodyEnd])
		_, _ = parts.Write(body[:])
		copy(sum[:], parts.Sum(nil))
		return sum, nil
	}
}
