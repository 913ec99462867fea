package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// idKey is the id of a message as the index keeps it, in 16 octets: the UUID that
// it is, or a hash of any other string.
type idKey [16]byte

// hashed is the version of a UUID that no specification gives out (RFC 9562 §4.2
// knows 1 to 8): it tells the hash from a UUID.
const hashed = 0xf0

// keyOf returns the key of an id.
func keyOf(id string) (k idKey) {
	if k, ok := parseUUID(id); ok {
		return k
	}
	sum := sha256.Sum256([]byte(id))
	copy(k[:], sum[:])
	k[6] |= hashed
	return k
}

// uuidPairs is where the digits of each octet stand in the text of a UUID.
var uuidPairs = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// parseUUID reads a UUID in the one form that String gives back. Hot path of the
// scan of the log: must not allocate (TestKeyOf).
func parseUUID(id string) (k idKey, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return k, false
	}
	for i, at := range uuidPairs {
		high, low := digit(id[at]), digit(id[at+1])
		if high|low > 0xf {
			return k, false
		}
		k[i] = high<<4 | low
	}
	return k, k[6]&hashed != hashed
}

// digit is the value of a hexadecimal digit as String writes it, 0xff for any
// other octet.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// String is the UUID.
func (k idKey) String() string {
	var b [36]byte
	hex.Encode(b[:8], k[:4])
	hex.Encode(b[9:13], k[4:6])
	hex.Encode(b[14:18], k[6:8])
	hex.Encode(b[19:23], k[8:10])
	hex.Encode(b[24:], k[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// more is what the index knows of few messages only: of those just accepted, those
// that were tried, and those with an identity or that forward.
type more struct {
	id      string // where the key is a hash of it
	history []AttemptRecord
	hot     *Message // kept in memory until the first attempt has taken it
	same    [16]byte // key of Message.Identity
	known   bool     // there is one
	due     time.Duration
	heap    int           // index in routeState.delayed
	denied  time.Duration // when it last met a refusal of the credentials of the gateway; 0 for never
	// next is the id of what follows from the message, if it forwards.
	next     idKey
	forwards bool
	doom     *doom  // its end, while its dead letter finds no room
	came     *Label // Message.Came
}

// extra returns what is kept of few messages, made if need be.
func (it *item) extra() *more {
	if it.more == nil {
		it.more = &more{}
	}
	return it.more
}

// id is the id of the message.
func (it *item) id() string {
	if it.key[6]&hashed == hashed {
		return it.more.id
	}
	return it.key.String()
}

// history are the attempts that are remembered; not to be changed.
func (it *item) history() []AttemptRecord {
	if it.more == nil {
		return nil
	}
	return it.more.history
}

func (it *item) setHistory(h []AttemptRecord) {
	if len(h) > 0 || it.more != nil {
		it.extra().history = h
	}
}

// same is the key of the identity of the message, nil for none.
func (it *item) same() *[16]byte {
	if it.more == nil || !it.more.known {
		return nil
	}
	return &it.more.same
}

// came is Message.Came.
func (it *item) came() *Label {
	if it.more == nil {
		return nil
	}
	return it.more.came
}

// forwards is Message.Forwards.
func (it *item) forwards() bool { return it.more != nil && it.more.forwards }

// hot is the message itself while it is kept in memory, nil afterwards.
func (it *item) hot() *Message {
	if it.more == nil {
		return nil
	}
	return it.more.hot
}

// cool lets go of the message itself. Q.hot is for the caller to mend.
func (it *item) cool() {
	if it.more == nil {
		return
	}
	it.more.hot = nil
	if x := it.more; x.id == "" && len(x.history) == 0 && !x.known && !x.forwards && x.due == 0 && x.denied == 0 && x.doom == nil && x.came == nil {
		it.more = nil
	}
}

// bare lets go of all but the id.
func (it *item) bare() {
	if it.more != nil {
		*it.more = more{id: it.more.id}
	}
}

// due is when the next attempt is due, on the clock of the queue; 0 is now.
func (it *item) due() time.Duration {
	if it.more == nil {
		return 0
	}
	return it.more.due
}

func (it *item) setDue(d time.Duration) {
	if d != 0 || it.more != nil {
		it.extra().due = d
	}
}
