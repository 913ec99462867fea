package admin

import (
	"context"
	"errors"
	"io"
	"time"
)

// The reasons for which a [Queue] refuses; the API has an answer for each.
var (
	ErrNoRoute   = errors.New("no such route")
	ErrNoMessage = errors.New("no such message")
	ErrBusy      = errors.New("the message is being delivered at this moment")
	ErrCursor    = errors.New("the cursor is none of this listing")
	ErrDamaged   = errors.New("the message cannot be read as it was written")
	ErrFull      = errors.New("the store has no room")
	ErrClosed    = errors.New("the store is closed or has failed")
	ErrUnknown   = errors.New("whether the change was kept is not known")
	ErrTarget    = errors.New("nothing can be moved to this route: it is none that stores messages")
	ErrInvalid   = errors.New("the file of exported messages is not valid")
	ErrBackup    = errors.New("a backup is being made: try again when it is done")
	ErrStopped   = errors.New("this needs a running gateway")
)

// A Queue is what the API shows and operates: the stored messages of the
// gateway. Its errors wrap those of this package, or are shown as they are.
type Queue interface {
	// Store describes where the messages are; ok is false if there is no store.
	Store() (s StoreInfo, ok bool)
	// Loaded reports whether all that is stored is known; until then lists and
	// counts leave messages out.
	Loaded() bool
	// Waiting is how many messages wait or are under way.
	Waiting() int
	// Stats counts the messages of every route that stores or has messages, by name.
	Stats() []RouteStats
	// List returns a page, and the cursor of the next if there is one. ErrCursor.
	List(f Filter) (page []Entry, next string, err error)
	// Get returns all that is known of one message, with what is to be hidden of
	// envelope and reply hidden. ErrNoMessage, ErrDamaged.
	Get(id string) (*Detail, error)
	// Replay makes a dead letter wait again. ErrNoMessage, ErrBusy.
	Replay(ctx context.Context, id string) error
	// Drop forgets a message for good. ErrNoMessage, ErrBusy.
	Drop(ctx context.Context, id string) error
	// ReplayAll and DropAll do so with what a filter selects and return with how many.
	ReplayAll(ctx context.Context, f Filter) (int, error)
	DropAll(ctx context.Context, f Filter) (int, error)
	// Move puts the messages with these ids on another route, MoveAll those that a
	// filter selects. ErrTarget, ErrFull; ErrNoRoute if the filter's route is none.
	Move(ctx context.Context, ids []string, to string) (Moved, error)
	MoveAll(ctx context.Context, f Filter, to string) (Moved, error)
	// Export writes a file of the messages that f selects. What is left out cannot be
	// read. ErrCursor never; the error of w.
	Export(ctx context.Context, f Filter, o ExportOptions, w io.Writer) (Exported, error)
	// Import takes up the messages of a file that Export has written, on the route to
	// unless it is "". What was taken before an error stays. ErrInvalid, ErrTarget, ErrFull.
	Import(ctx context.Context, r io.Reader, to string) (Imported, error)
	// Pause stops the attempts of a route until Resume; Flush makes all its
	// messages due now. ErrNoRoute.
	Pause(ctx context.Context, route string) error
	Resume(ctx context.Context, route string) error
	Flush(ctx context.Context, route string) error
	// Hold stops the attempts of the backend of a route, from any route, until
	// Release. ErrNoRoute.
	Hold(ctx context.Context, route string) error
	Release(ctx context.Context, route string) error
}

// StoreInfo describes the store of a gateway.
type StoreInfo struct {
	ID         string    `json:"id"`
	Epoch      uint64    `json:"epoch"` // higher at each start, and after a restore than it ever was
	Clean      bool      `json:"clean"` // the stop before this start was orderly
	Dir        string    `json:"dir,omitempty"`
	Durability string    `json:"durability"`
	Messages   uint64    `json:"messages"`
	Bytes      uint64    `json:"bytes"`
	Opened     time.Time `json:"opened"`
	Error      string    `json:"error,omitempty"` // why it is not trusted any more
}

// RouteStats counts the messages of one route.
type RouteStats struct {
	Route       string    `json:"route"`
	Destination string    `json:"destination,omitempty"`
	Pending     int       `json:"pending"`
	Retrying    int       `json:"retrying"`
	Dead        int       `json:"dead"`
	Orphaned    int       `json:"orphaned"`
	Awaiting    int       `json:"awaiting,omitempty"` // other sites have them, and are to answer
	InFlight    int       `json:"in_flight"`
	Bytes       int64     `json:"bytes"`
	Oldest      time.Time `json:"oldest,omitzero"`
	Paused      bool      `json:"paused,omitempty"`
	Stopped     int       `json:"stopped_keys,omitempty"`
	IDs         int       `json:"dedup_ids,omitempty"`
	Down        bool      `json:"down,omitempty"`
	NextProbe   time.Time `json:"next_probe,omitzero"`
	Held        string    `json:"held,omitempty"` // operator or credentials
	LastError   string    `json:"last_error,omitempty"`
	Loading     bool      `json:"loading,omitempty"`
}

// Entry is a message in a listing.
type Entry struct {
	ID          string    `json:"id"`
	Route       string    `json:"route"`
	Destination string    `json:"destination,omitempty"`
	Lane        string    `json:"lane,omitempty"`
	Operation   string    `json:"operation,omitempty"`
	State       string    `json:"state"`
	InFlight    bool      `json:"in_flight,omitempty"`
	Accepted    time.Time `json:"accepted"`
	Died        time.Time `json:"died,omitzero"`
	Delivered   time.Time `json:"delivered,omitzero"`
	Site        string    `json:"site,omitempty"`  // awaiting: which has it
	Handed      time.Time `json:"handed,omitzero"` // and since when
	Size        int64     `json:"size"`
	Attempts    int       `json:"attempts"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	Reason      string    `json:"reason,omitempty"`
	Text        string    `json:"text,omitempty"`
	Stops       bool      `json:"stops_key,omitempty"`
	WaitsFor    string    `json:"waits_for,omitempty"`
}

// Attempt is one finished attempt.
type Attempt struct {
	N         int       `json:"n"`
	At        time.Time `json:"at"`
	Status    int       `json:"status,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Maybe     bool      `json:"maybe,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
}

// Field is a header field kept with a message. A secret one is shown without
// its value; the API takes well-known names for secret by itself.
type Field struct {
	Name   string
	Value  string
	Secret bool
}

// Detail is all that is known of one message.
type Detail struct {
	Entry    Entry
	Attempts []Attempt
	Header   []Field
	Envelope []byte
	// EnvelopeCut says that Envelope is only the start of a large one.
	EnvelopeCut   bool
	EnvelopeError string // why the rest of Envelope is not there; "" = it is
	Reply         []byte // of a dead letter: the last answer
	ReplyType     string
	ReplyError    string // as EnvelopeError
	Hidden        int    // places of both that are masked
	Attachments   int    // parts of the message that are not in Envelope
}

// Filter selects messages; a zero field does not restrict.
type Filter struct {
	Route     string
	State     string
	Operation string
	Since     time.Time
	Text      string
	After     string
	Limit     int
}

// states are the values of Filter.State.
var states = []string{"pending", "retrying", "dead", "orphaned", "delivered", "awaiting"}

// noQueue is that of a gateway without a route that stores.
type noQueue struct{}

var _ Queue = noQueue{}

func (noQueue) Store() (StoreInfo, bool)                       { return StoreInfo{}, false }
func (noQueue) Loaded() bool                                   { return true }
func (noQueue) Waiting() int                                   { return 0 }
func (noQueue) Stats() []RouteStats                            { return nil }
func (noQueue) List(Filter) ([]Entry, string, error)           { return nil, "", nil }
func (noQueue) Get(string) (*Detail, error)                    { return nil, ErrNoMessage }
func (noQueue) Replay(context.Context, string) error           { return ErrNoMessage }
func (noQueue) Drop(context.Context, string) error             { return ErrNoMessage }
func (noQueue) ReplayAll(context.Context, Filter) (int, error) { return 0, nil }
func (noQueue) DropAll(context.Context, Filter) (int, error)   { return 0, nil }
func (noQueue) Move(_ context.Context, ids []string, _ string) (Moved, error) {
	return Moved{}, ErrTarget
}

func (noQueue) MoveAll(context.Context, Filter, string) (Moved, error) { return Moved{}, ErrTarget }
func (noQueue) Export(context.Context, Filter, ExportOptions, io.Writer) (Exported, error) {
	return Exported{}, ErrNoRoute
}

func (noQueue) Import(context.Context, io.Reader, string) (Imported, error) {
	return Imported{}, ErrTarget
}
func (noQueue) Pause(context.Context, string) error   { return ErrNoRoute }
func (noQueue) Resume(context.Context, string) error  { return ErrNoRoute }
func (noQueue) Flush(context.Context, string) error   { return ErrNoRoute }
func (noQueue) Hold(context.Context, string) error    { return ErrNoRoute }
func (noQueue) Release(context.Context, string) error { return ErrNoRoute }
