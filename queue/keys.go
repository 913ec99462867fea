package queue

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrKey: what is sealed can not be opened with the keys that were given.
var ErrKey = errors.New("queue: wrong or missing encryption key")

// KeySize is the length of a key in octets.
const KeySize = 32

// Keys encrypt what a store has on the disk. The first is in use; the others
// open what was sealed before it. A nil *Keys seals nothing and opens nothing.
type Keys struct {
	keys  []key
	plain bool // nothing is sealed any more; the keys only open
}

// key is one key and its name, and what is derived from it.
type key struct {
	secret  [KeySize]byte
	id      keyID
	records recordKey
	names   []byte // for HMAC
}

// noKey stands for a key in a key file, and in store.json for that of what is not sealed.
const noKey = "none"

// keyID names a key without telling anything of it. It may stand in clear: to
// get from it to a key one has to try all of them.
type keyID [8]byte

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// maxKeys bounds a key file: a rotation needs two keys.
const maxKeys = 32

// ParseKeys reads a key file: one key on a line, the one in use first. A key is
// [KeySize] random octets, as 64 hexadecimal digits or in Base64; empty lines and
// those that begin with # are passed over. Words are no keys: what a person can
// remember, a thief of the disk can try. The word none in place of the first key
// means that nothing is sealed any more, while the keys behind it still open what
// was. Errors name the line and nothing of what it holds.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line == noKey {
			if k.plain || len(k.keys) > 0 {
				return nil, fmt.Errorf("line %d: %s must be the first key", n, noKey)
			}
			k.plain = true
			continue
		}
		secret, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		one, err := newKey(secret)
		if err != nil {
			return nil, err
		}
		for _, other := range k.keys {
			if other.id == one.id {
				return nil, fmt.Errorf("line %d: this key stands there twice", n)
			}
		}
		if k.keys = append(k.keys, one); len(k.keys) > maxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", n, maxKeys)
		}
	}
	if len(k.keys) == 0 && !k.plain {
		return nil, errors.New("there is no key")
	}
	return k, nil
}

var errKeyForm = fmt.Errorf("a key is %d octets, as %d hexadecimal digits or in Base64", KeySize, 2*KeySize)

func parseKey(s string) (secret [KeySize]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		b, err = base64.StdEncoding.DecodeString(s)
	}
	if err != nil {
		b, err = base64.RawURLEncoding.DecodeString(s)
	}
	if err != nil || len(b) != KeySize {
		return secret, errKeyForm
	}
	copy(secret[:], b)
	for _, c := range secret[1:] {
		if c != secret[0] {
			return secret, nil
		}
	}
	return secret, errors.New("this key is one octet again and again, not a random one")
}

func newKey(secret [KeySize]byte) (key, error) {
	k := key{secret: secret}
	id, err := k.derive("soapway key id", nil, len(k.id))
	if err != nil {
		return k, err
	}
	copy(k.id[:], id)
	if k.names, err = k.derive("soapway names 1", nil, sha256.Size); err != nil {
		return k, err
	}
	records, err := k.derive("soapway records 1", nil, KeySize)
	if err != nil {
		return k, err
	}
	k.records, err = newRecordKey(records)
	return k, err
}

// derive makes octets of its own for each purpose and salt (HKDF with SHA-256,
// RFC 5869), so that nothing is ever encrypted with the key itself.
func (k *key) derive(purpose string, salt []byte, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret[:], salt, purpose, n)
}

// Sealing says whether what is written from now on is sealed.
func (k *Keys) Sealing() bool { return k != nil && !k.plain }

// ID names the key in use, for logs; it tells nothing of the key. It is empty
// where nothing is sealed.
func (k *Keys) ID() string {
	if !k.Sealing() {
		return ""
	}
	return k.keys[0].id.String()
}

// has says whether there is a key of this name.
func (k *Keys) has(id string) bool {
	return k != nil && slices.ContainsFunc(k.keys, func(one key) bool { return one.id.String() == id })
}

// name makes of a name one that tells nothing of it.
func (k *key) name(kind, name string) []byte {
	h := hmac.New(sha256.New, k.names)
	h.Write([]byte(kind))
	h.Write([]byte{0})
	h.Write([]byte(name))
	return h.Sum(nil)
}

// find returns the key of this name.
func (k *Keys) find(id keyID) (*key, error) {
	if k != nil {
		for i := range k.keys {
			if k.keys[i].id == id {
				return &k.keys[i], nil
			}
		}
	}
	return nil, fmt.Errorf("%w: what was sealed with key %v needs that key", ErrKey, id)
}

// String hides the keys.
func (k *Keys) String() string { return "[redacted]" }

// GoString hides the keys.
func (k *Keys) GoString() string { return k.String() }
