package bench

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestQueueMessage: a message has its size and says what was put in.
func TestQueueMessage(t *testing.T) {
	for _, size := range []int{queueLeast, 225, 5000} {
		b := queueEnvelope(size)
		if len(b) != size {
			t.Errorf("queueEnvelope(%d): %d octets", size, len(b))
		}
		at := len(queueHead)
		putDigits(b[at:at+queueDigits], 42)
		putDigits(b[at+queueDigits+len(queueMid):][:queueNanos], 12345)
		if n, sent, err := readQueueMessage(b); n != 42 || sent != 12345 || err != nil {
			t.Errorf("readQueueMessage: %d, %v, %v", n, sent, err)
		}
	}
	for _, bad := range []string{"", "<b:n>", "<b:n>00000000000x</b:n><b:a>000000000000000", "<s:Envelope/>"} {
		if _, _, err := readQueueMessage([]byte(bad)); err == nil {
			t.Errorf("readQueueMessage(%q): no error", bad)
		}
	}
}

// ledgerStep is something that the ledger of the drill is told.
type ledgerStep struct {
	what string // sends, accepted, saw, cut, marked: saw with the mark
	k    int
	n    int64
}

// TestDrillLedger: the drill can fail. Each way to break a promise shows as what
// it is.
func TestDrillLedger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []ledgerStep
		want  drillCount
	}{
		{"well", []ledgerStep{{what: "accepted", n: 1}, {what: "saw", n: 1}, {what: "accepted", n: 2}, {what: "saw", n: 2}}, drillCount{accepted: 2, delivered: 2}},
		{"lost", []ledgerStep{{what: "accepted", n: 1}, {what: "accepted", n: 2}, {what: "saw", n: 2}}, drillCount{accepted: 2, delivered: 1, lost: 1}},
		{"cut is not delivered", []ledgerStep{{what: "accepted", n: 1}, {what: "cut", n: 1}}, drillCount{accepted: 1, delivered: 1, lost: 1}},
		{"cut and again", []ledgerStep{{what: "accepted", n: 1}, {what: "cut", n: 1}, {what: "marked", n: 1}}, drillCount{accepted: 1, delivered: 1, duplicated: 1}},
		{"again without the mark", []ledgerStep{{what: "accepted", n: 1}, {what: "saw", n: 1}, {what: "saw", n: 1}}, drillCount{accepted: 1, delivered: 1, unmarked: 1}},
		{"out of order", []ledgerStep{{what: "accepted", n: 1}, {what: "accepted", n: 2}, {what: "saw", n: 2}, {what: "saw", n: 1}}, drillCount{accepted: 2, delivered: 2, reordered: 1}},
		{"a repeat is not out of order", []ledgerStep{{what: "accepted", n: 1}, {what: "accepted", n: 2}, {what: "saw", n: 1}, {what: "saw", n: 2}, {what: "marked", n: 1}}, drillCount{accepted: 2, delivered: 2, duplicated: 1}},
		{"lanes are apart", []ledgerStep{{what: "accepted", k: 0, n: 2}, {what: "saw", k: 0, n: 2}, {what: "accepted", k: 1, n: 1}, {what: "saw", k: 1, n: 1}}, drillCount{accepted: 2, delivered: 2, unknown: 1}},
		{"nobody sent it", []ledgerStep{{what: "saw", n: 9}, {what: "saw", k: 5, n: 1}}, drillCount{}},
		{"unknown may come or not", []ledgerStep{{what: "sends", n: 1}, {what: "sends", n: 2}, {what: "saw", n: 2}}, drillCount{unknown: 2, delivered: 1}},
	} {
		l := newDrillLedger(2)
		for _, s := range tt.steps {
			switch s.what {
			case "sends":
				l.sends(s.k, s.n)
			case "accepted":
				l.sends(s.k, s.n)
				l.told(s.k, s.n, drillAccepted)
			default:
				l.saw(sunk{n: int64(s.k)*drillSpan + s.n, cut: s.what == "cut", marked: s.what == "marked"})
			}
		}
		if got := l.count(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestQueueSink: the backend takes what comes, goes away, comes back at its
// address, and cuts connections when told to.
func TestQueueSink(t *testing.T) {
	clock := queueClock{time.Now()}
	tally := newQueueTally()
	tally.begin(1)
	s, err := newQueueSink(t.Context(), clock, tally.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.down()
	address := s.address
	post := func(n int64) (int, error) {
		q, err := dialQueue(t.Context(), address, "", 225, clock)
		if err != nil {
			return 0, err
		}
		defer q.conn.Close()
		return q.post(n)
	}
	for _, n := range []int64{1, 2, 2} {
		if status, err := post(n); status != 202 || err != nil {
			t.Fatalf("post: %d, %v", status, err)
		}
	}
	if tally.count() != 2 || tally.again != 1 {
		t.Errorf("%d messages and %d repeats, want 2 and 1", tally.count(), tally.again)
	}
	s.down()
	if _, err := post(3); err == nil {
		t.Error("a backend that is down answers")
	}
	if err := s.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.address != address {
		t.Errorf("it came back at %s, not at %s", s.address, address)
	}
	s.cut.Store(true)
	if status, err := post(3); err == nil {
		t.Errorf("a cut answer came: %d", status)
	}
	if err := tally.await(t.Context(), 3); err != nil {
		t.Errorf("the message before the cut was not seen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tally.await(ctx, 4); err == nil {
		t.Error("await does not end with its context")
	}
}

// TestQueueRowsOfTheLab runs the rows that need no gateway, for a moment.
func TestQueueRowsOfTheLab(t *testing.T) {
	lab := NewLab(LabOptions{Command: []string{"false"}, Dir: t.TempDir()})
	runner := NewRunner(Options{Runs: 2, MaxRuns: 2})
	o := QueueOptions{Window: 50 * time.Millisecond, Limits: &Limits{Sync: &SyncLimit{Mean: 1000}}}
	for _, s := range []Scenario{NewQueueBare(lab, 3, o), NewQueueDisk(lab, o)} {
		row, err := runner.Measure(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if row.Summary.Mean <= 0 || row.Summary.Errors > 0 || len(row.Runs) != 2 {
			t.Errorf("%s: %+v", rowName(row.Name, row.Combo), row.Summary)
		}
	}
}

// TestNotStrict: a folder that is no place for a strict store makes a row that says
// so, and no error.
func TestNotStrict(t *testing.T) {
	err := &net.OpError{Op: "bench: start serve", Err: os.NewSyscallError("EOF\ngateway: error: gateway.yaml:4:24: store.durability: strict is not possible on tmpfs", os.ErrInvalid)}
	if !notStrict(err) {
		t.Fatal("the reason was not seen")
	}
	if got := voidReason(err); !strings.Contains(got, "store.durability: strict is not possible") || strings.Contains(got, "\n") {
		t.Errorf("voidReason: %q", got)
	}
	q := &queueAccept{queueRig: &queueRig{void: "no place"}}
	m := newMeter(nil, nil, nil)
	if err := q.Once(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if run, _ := m.run(); run.Verdict != Invalid || run.Reasons[0] != "no place" {
		t.Errorf("%s: %q", run.Verdict, run.Reasons)
	}
}
