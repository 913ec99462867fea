package queue

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// An Identity says which message is a repeat of which. Its hashes are made by
// whoever accepts messages, by a function that nobody can find collisions of:
// they are compared in place of what they were made of.
type Identity struct {
	// Key stands for the id of the message and for the scope of that id.
	Key [16]byte
	// Sum stands for the octets that are the same in a repeat.
	Sum [16]byte
	// Until is the end of the window within which a message with this Key is a
	// repeat.
	Until time.Time
}

// IsZero reports whether there is no identity.
func (i *Identity) IsZero() bool { return i.Until.IsZero() }

// option is the identity as an option of a record: Key and Sum in base64 and
// Until in nanoseconds since 1970, see [Format].
func (i *Identity) option() string {
	var b [32]byte
	copy(b[:16], i.Key[:])
	copy(b[16:], i.Sum[:])
	return base64.RawURLEncoding.EncodeToString(b[:]) + "." + strconv.FormatInt(i.Until.UnixNano(), 10)
}

func parseIdentity(s string) (i Identity, err error) {
	hashes, until, _ := strings.Cut(s, ".")
	b, err := base64.RawURLEncoding.DecodeString(hashes)
	n, e := strconv.ParseInt(until, 10, 64)
	if err != nil || e != nil || len(b) != 32 {
		return Identity{}, errFormat
	}
	copy(i.Key[:], b)
	copy(i.Sum[:], b[16:])
	i.Until = time.Unix(0, n).UTC()
	return i, nil
}

// Fate is what has become of a message.
type Fate uint8

// The fates of a message that was accepted.
const (
	FateWaiting   Fate = iota // it waits, or is under way
	FateDelivered             // it was delivered
	FateDead                  // it is a dead letter
	FateDropped               // an operator has dropped it
)

// Known is what is kept of a message with an identity until its time is over,
// also when the message itself is gone.
type Known struct {
	Identity
	ID    string // of the message, a UUID
	Route string
	Fate  Fate
}

// knownSize is what a Known takes in a record: Key, Sum, ID, Until in
// nanoseconds since 1970 with the highest octet first, and Fate. The route is
// that of the whole record.
const knownSize = 16 + 16 + 16 + 8 + 1

// knownMost is how many a record has at most.
const knownMost = 16 << 10

func appendKnown(b []byte, k *Known) ([]byte, error) {
	id, err := uuid.Parse(k.ID)
	if err != nil {
		return b, fmt.Errorf("queue: message id %s is no UUID: %w", strconv.Quote(cut(k.ID, 100)), err)
	}
	b = append(b, k.Key[:]...)
	b = append(b, k.Sum[:]...)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(k.Until.UnixNano()))
	return append(b, byte(k.Fate)), nil
}

// parseKnown calls f for all of a record.
func parseKnown(route string, b []byte, f func(Known) error) error {
	if len(b)%knownSize != 0 {
		return errFormat
	}
	for ; len(b) > 0; b = b[knownSize:] {
		k := Known{Route: route, Fate: Fate(b[56])}
		copy(k.Key[:], b)
		copy(k.Sum[:], b[16:])
		k.ID = uuid.UUID(b[32:48]).String()
		k.Until = time.Unix(0, int64(binary.BigEndian.Uint64(b[48:]))).UTC()
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}
