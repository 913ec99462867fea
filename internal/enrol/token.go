package enrol

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// tokenPrefix tells a token from other text, and one version of it from the next.
const tokenPrefix = "site1-"

// A Token lets one site in, once. Its text is a secret.
type Token struct {
	secret [16]byte
	pin    [sha256.Size]byte // of the hub's authority
}

// ParseToken reads the text of a token.
func ParseToken(text string) (Token, error) {
	var t Token
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if !ok || err != nil || len(b) != len(t.secret)+len(t.pin) {
		return t, errors.New("this is no token of gateway site invite, or a part of it is missing")
	}
	copy(t.secret[:], b)
	copy(t.pin[:], b[len(t.secret):])
	return t, nil
}

// Reveal is the text of the token, which ParseToken reads.
func (t Token) Reveal() string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(t.secret[:], t.pin[:]...))
}

// String hides the token, so that it can be printed by mistake.
func (t Token) String() string { return tokenPrefix + "…" }

// Mark tells one token from another and says nothing of its secret.
func (t Token) Mark() string {
	sum := sha256.Sum256(append([]byte("mark of a token"), t.secret[:]...))
	return hex.EncodeToString(sum[:6])
}

func newToken(pin [sha256.Size]byte) Token {
	t := Token{pin: pin}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}
