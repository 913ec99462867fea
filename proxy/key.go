package proxy

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"soapway/soapcodec"
)

// KeySource says where the key of a message comes from.
type KeySource uint8

// The sources of a key.
const (
	KeyNone   KeySource = iota // there is no key
	KeyRoute                   // all messages of the route have the same
	KeyHTTP                    // a field of the request; several lines are joined by ", "
	KeyHeader                  // the text of a header block
	KeyBody                    // the text of an element under Body
)

// Key says what of a message is its key. The zero value is none.
type Key struct {
	Source KeySource
	Field  string           // of KeyHTTP: its name
	Path   []soapcodec.Step // of KeyHeader: the block; of KeyBody: the way from the children of Body down
}

func (k *Key) validate() error {
	switch {
	case k.Source == KeyHTTP && !isToken(k.Field):
		return fmt.Errorf("field %q, want a token", k.Field)
	case k.Source == KeyHTTP && !kept(textproto.CanonicalMIMEHeaderKey(k.Field)):
		return fmt.Errorf("field %q, which is not stored", k.Field)
	case k.Source == KeyHeader && len(k.Path) != 1:
		return fmt.Errorf("%d names, want that of a header block", len(k.Path))
	case k.Source == KeyBody && len(k.Path) == 0:
		return errors.New("no path, want at least one name")
	}
	return nil
}

// inEnvelope is what the decoder has to look for, if anything.
func (k *Key) inEnvelope() (soapcodec.Key, bool) {
	return soapcodec.Key{Header: k.Source == KeyHeader, Path: k.Path}, k.Source == KeyHeader || k.Source == KeyBody
}

// keyPlace is a Key of a compiled route.
type keyPlace struct {
	Key
	field string // canonical name of Field
	index int    // in Facts.Keys
}

// compileKey adds to the options what the decoder has to look for.
func compileKey(k Key, opt *soapcodec.Options) keyPlace {
	p := keyPlace{Key: k, field: textproto.CanonicalMIMEHeaderKey(k.Field)}
	if search, ok := k.inEnvelope(); ok {
		p.index = len(opt.Keys)
		opt.Keys = append(opt.Keys, search)
	}
	return p
}

// value returns the key of the message, "" if it has none. A key of the
// envelope has been bounded by the decoder; one of the head is bounded here, and
// no more cut than that.
func (p *keyPlace) value(c *call) (string, error) {
	switch p.Source {
	case KeyRoute:
		return "route", nil
	case KeyHTTP:
		v := joined(c.ex.Header.Values(p.field))
		if len(v) > soapcodec.MaxKey {
			return "", &soapcodec.Fault{
				Code: soapcodec.CodeLimit, Reason: fmt.Sprintf("The field %s, which is the key of the message, has more than %d octets.", p.field, soapcodec.MaxKey),
			}
		}
		return v, nil
	case KeyHeader, KeyBody:
		return c.keys[p.index], nil
	}
	return "", nil
}

// joined is the value of a field that may have several lines (RFC 9110 §5.3).
func joined(lines []string) string { return strings.Trim(strings.Join(lines, ", "), " \t") }

// NoKey is the lane of the messages of a route with an order whose key they do
// not have. No key is equal to it, since none begins with a space.
const NoKey = " (no key)"

// lane is where the message waits for its turn.
func (c *call) lane() (string, error) {
	by := &c.route.orderBy
	if by.Source == KeyNone {
		return "", nil
	}
	v, err := by.value(c)
	if v == "" && err == nil {
		v = NoKey
	}
	return v, err
}
