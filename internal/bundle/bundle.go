package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// Format and Version are in every bundle's export.json.
const (
	Format  = "soapway-export"
	Version = 2
)

// The reasons for which a bundle is refused.
var (
	ErrFormat    = errors.New("this is no file of exported messages")
	ErrVersion   = errors.New("the file is of a later version than this program knows")
	ErrTruncated = errors.New("the file ends before its end: it was cut off")
	ErrDamaged   = errors.New("the checksum differs: the file was damaged or changed")
	ErrEntry     = errors.New("an entry is not what must come here")
	ErrTooLarge  = errors.New("an entry is larger than it may be")
	ErrContent   = errors.New("the content of an entry is not valid")
	ErrCount     = errors.New("the number of messages differs from what the end says")
	ErrTrailing  = errors.New("something follows behind the end")
)

// Error says where a bundle is bad. Its text is `bundle: PLACE: reason`.
type Error struct {
	Entry  string // the name of the entry that was read or expected, quoted if it is foreign
	Offset int64  // octets of the file that were read before
	Err    error  // one of this package, or what reading has met; never nil
}

// Error names the place and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("bundle: %s (offset %d): %v", e.Entry, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Head is export.json.
type Head struct {
	Format  string            `json:"format"`
	Version int               `json:"version"`
	Created time.Time         `json:"created"`
	Gateway string            `json:"gateway,omitempty"` // its version
	Store   string            `json:"store,omitempty"`   // its id
	Route   string            `json:"route"`
	Filter  map[string]string `json:"filter,omitempty"`
}

// End is end.json.
type End struct {
	Messages int `json:"messages"`
	// LeftOut are messages that were selected and could not be read, at most
	// 1000 of them; Missing is how many there are.
	LeftOut []LeftOut `json:"left_out,omitempty"`
	Missing int       `json:"missing,omitempty"`
	// Masked is how many of the messages are masked.
	Masked int `json:"masked,omitempty"`
	// Previous is that of Message.
	Previous string `json:"previous"`
}

// LeftOut is a message that is not in the bundle.
type LeftOut struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Message is one exported message. Envelope and Reply are files of their own.
type Message struct {
	ID        string    `json:"id"`
	Route     Text      `json:"route"`
	Backend   Text      `json:"backend,omitempty"`
	State     string    `json:"state"` // pending, retrying, orphaned or dead
	OrderKey  Text      `json:"order_key,omitempty"`
	Operation Text      `json:"operation,omitempty"`
	Accepted  time.Time `json:"accepted"`
	Identity  *Identity `json:"identity,omitempty"` // by which repeats are noticed
	Attempts  []Attempt `json:"attempts,omitempty"`

	// Meta is what goes along with the envelope, such as header fields, in the form of
	// the gateway. It is JSON, or else Meta is nil and MetaOctets has it.
	Meta       json.RawMessage `json:"meta,omitempty"`
	MetaOctets []byte          `json:"meta_base64,omitempty"`

	Dead *Dead `json:"dead,omitempty"` // of a dead letter

	// Forwards says that the answer to it may be a message of its own; After is what
	// became of the message that this one is the answer to: delivered or dead.
	Forwards bool   `json:"forwards,omitempty"`
	After    string `json:"after,omitempty"`

	Envelope  []byte `json:"-"`
	Body      Source `json:"-"` // the envelope, for a Writer, where it is not in memory
	Spooled   Spool  `json:"-"` // where a Reader has put it; for the caller to close
	Reply     []byte `json:"-"` // the last answer; nil is none
	ReplyType Text   `json:"reply_type,omitempty"`

	// Masked says that envelope, header fields or order key are not those that were
	// accepted, since something in them is hidden. Such a message is only to be read.
	Masked bool `json:"masked,omitempty"`

	Files Files `json:"files"`
	// Previous is the SHA-256, in hexadecimal, of the JSON entry before.
	Previous string `json:"previous"`
}

// Source is an envelope that is not in memory.
type Source interface {
	Size() int64
	Open() (io.ReadCloser, error)
}

// Spool takes a large envelope.
type Spool interface {
	io.Writer
	io.Closer
}

// Files are the sizes and digests of the files of a message.
type Files struct {
	Envelope File  `json:"envelope"`
	Reply    *File `json:"reply,omitempty"`
}

// File is one of them.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Identity says which message is a repeat of which.
type Identity struct {
	Key   []byte    `json:"key"` // 16 octets each
	Sum   []byte    `json:"sum"`
	Until time.Time `json:"until"`
}

// Attempt is one finished attempt.
type Attempt struct {
	N         int       `json:"n"`
	At        time.Time `json:"at"`
	Status    int       `json:"status,omitempty"`
	Reason    Text      `json:"reason,omitempty"`
	Maybe     bool      `json:"maybe,omitempty"` // the message may have been processed
	NotBefore time.Time `json:"not_before,omitzero"`
}

// Dead says why a message is a dead letter.
type Dead struct {
	Died   time.Time `json:"died"`
	Reason Text      `json:"reason"`
	Text   Text      `json:"text,omitempty"`
	Stops  bool      `json:"stops_key,omitempty"`
}

// Text is a string that may be any octets.
type Text string

type octets struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes a string, or {"base64": …} if it is not UTF-8.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return marshal(string(t))
	}
	return marshal(octets{[]byte(t)})
}

// UnmarshalJSON reads either.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o octets
		err := json.Unmarshal(b, &o)
		*t = Text(o.Base64)
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*t = Text(s)
	return err
}
