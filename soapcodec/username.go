package soapcodec

import (
	"errors"
	"slices"
	"sync"

	"soapway/xmlstream"
)

// UsernameToken is the element of that name in a Security block of WS-Security
// (UsernameToken Profile 1.1 §3.1). White space around its values is removed,
// but for Password.
type UsernameToken struct {
	Username     string
	Password     string
	PasswordType string // the Type attribute of Password
	Nonce        string
	Created      string
}

const nsUtility = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"

// maxCredential bounds a value of a UsernameToken, in octets.
const maxCredential = 4 << 10

var (
	errTokens     = errors.New("soapcodec: more than one UsernameToken")
	errTokenValue = errors.New("soapcodec: a value of the UsernameToken is too long, or stands twice")
)

var tokenScanners = sync.Pool{New: func() any { return xmlstream.NewScanner(xmlstream.Limits{}) }}

// FindUsernameToken returns the UsernameToken of an envelope whose header has
// been decoded to f, nil if it has none. doc are the envelope's octets up to the
// end of its header, or more. Only Security blocks for the ultimate receiver,
// in whose place the gateway checks, and for role next are looked at. Two tokens,
// and values above 4 KiB, are an error: which one counts must not be a guess.
func FindUsernameToken(doc []byte, f *Facts) (*UsernameToken, error) {
	i := slices.IndexFunc(f.Headers, func(b HeaderBlock) bool { return f.securityFor(&b) })
	if i < 0 {
		return nil, nil
	}
	sc := tokenScanners.Get().(*xmlstream.Scanner)
	defer tokenScanners.Put(sc)
	sc.ResetBytes(doc)
	defer sc.ResetBytes(nil)
	var found *UsernameToken
	for {
		kind, err := sc.Next()
		if err != nil {
			return nil, err // not met: the decoder has seen these octets
		}
		if kind != xmlstream.Start || sc.Offset() != f.Headers[i].Start {
			continue
		}
		tok, err := tokenOf(sc)
		switch {
		case err != nil:
			return nil, err
		case tok != nil && found != nil:
			return nil, errTokens
		case tok != nil:
			found = tok
		}
		more := slices.IndexFunc(f.Headers[i+1:], func(b HeaderBlock) bool { return f.securityFor(&b) })
		if more < 0 {
			return found, nil
		}
		i += 1 + more
	}
}

func (f *Facts) securityFor(b *HeaderBlock) bool {
	return b.Name == QName{nsSecurity[0], "Security"} && (b.Role == "" || b.Next(f.Version))
}

// tokenOf reads the Security block whose start tag sc is at.
func tokenOf(sc *xmlstream.Scanner) (tok *UsernameToken, err error) {
	block := sc.Depth()
	var value *string // of the element that is open
	var seen [4]bool
	inside := false
	for {
		kind, err := sc.Next()
		if err != nil {
			return nil, err
		}
		depth := sc.Depth() - block
		switch kind {
		case xmlstream.Start:
			name := sc.Name()
			switch {
			case depth == 1 && name.Is(nsSecurity[0], "UsernameToken"):
				if tok != nil {
					return nil, errTokens
				}
				tok, inside = new(UsernameToken), true
			case depth == 2 && inside:
				var n int
				if value, n = tok.field(name); value == nil {
					continue
				}
				if seen[n] {
					return nil, errTokenValue
				}
				seen[n] = true
				if n == tokenPassword {
					tok.PasswordType = attrOf(sc, "Type")
				}
			}
		case xmlstream.Text, xmlstream.CDATA:
			if value != nil && depth == 2 {
				*value += string(sc.AppendText(nil))
				if len(*value) > maxCredential {
					return nil, errTokenValue
				}
			}
		case xmlstream.End:
			switch depth {
			case 0:
				return tok, nil
			case 1:
				inside = false
			case 2:
				// Of a password every octet counts.
				if value != nil && value != &tok.Password {
					*value = string(trim([]byte(*value)))
				}
				value = nil
			}
		}
	}
}

const (
	tokenUsername = iota
	tokenPassword
	tokenNonce
	tokenCreated
)

// field returns where the value of a child of the token goes, nil if it is not
// one that counts.
func (t *UsernameToken) field(name xmlstream.Name) (*string, int) {
	switch {
	case name.Is(nsSecurity[0], "Username"):
		return &t.Username, tokenUsername
	case name.Is(nsSecurity[0], "Password"):
		return &t.Password, tokenPassword
	case name.Is(nsSecurity[0], "Nonce"):
		return &t.Nonce, tokenNonce
	case name.Is(nsUtility, "Created"):
		return &t.Created, tokenCreated
	}
	return nil, 0
}

// attrOf returns the value of an attribute in no namespace.
func attrOf(sc *xmlstream.Scanner, local string) string {
	for _, a := range sc.Attrs() {
		if len(a.Name.Space) == 0 && string(a.Name.Local) == local {
			return a.Value()
		}
	}
	return ""
}
