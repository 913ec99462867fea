package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"soapway/internal/telemetry"
)

// A report prints outcomes as they come and keeps what the summary needs.
type report struct {
	c      *cli
	total  int
	single bool          // one message: its reply is the result
	every  time.Duration // between two lines of progress
	live   bool          // progress overwrites itself on a terminal
	drawn  bool          // a line of progress is on the screen

	faults, failed int
	unread         int // files that could not be read, which were reported
	times          []time.Duration
}

func (c *cli) newReport(p *plan) *report {
	r := &report{c: c, total: p.total(), unread: p.unread, single: p.total() == 1, every: 5 * time.Second}
	// Where results scroll by on the same screen they are progress enough.
	if telemetry.IsTerminal(c.stderr) && !telemetry.IsTerminal(c.stdout) {
		r.every, r.live = 200*time.Millisecond, true
	}
	return r
}

// sentLine is an outcome for machines.
type sentLine struct {
	N           int     `json:"n"`
	File        string  `json:"file"`
	Status      int     `json:"status,omitempty"` // of HTTP
	Result      string  `json:"result,omitempty"`
	ID          string  `json:"id,omitempty"`
	MS          float64 `json:"ms"`
	Bytes       int     `json:"bytes"`
	OK          bool    `json:"ok"`
	Fault       string  `json:"fault,omitempty"`
	Error       string  `json:"error,omitempty"`
	Reply       *string `json:"reply,omitempty"`        // of a single message
	ReplyBase64 []byte  `json:"reply_base64,omitempty"` // where it is not UTF-8
}

// sentSummary is the last line for machines when there was more than one.
type sentSummary struct {
	Sent      int     `json:"sent"`
	OK        int     `json:"ok"`
	Faults    int     `json:"faults"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
}

// add counts and prints one outcome. Its error is that of writing to stdout.
func (r *report) add(o *outcome) error {
	r.times = append(r.times, o.took)
	switch {
	case o.err != nil:
		r.failed++
	case o.answer.fault != "":
		r.faults++
	case !o.answer.success:
		r.failed++
	}
	r.wipe()
	switch {
	case r.c.json:
		return r.c.printJSON(r.line(o))
	case r.single:
		return r.one(o)
	case o.err != nil:
		_, err := fmt.Fprintf(r.c.stdout, "%s: error: %s\n", o.message.name, describe(o.err))
		return err
	}
	text := o.answer.text
	if o.answer.id != "" {
		text += ", id " + o.answer.id
	}
	if o.answer.fault != "" {
		text += ", fault " + strings.TrimSuffix(o.answer.fault, ".")
	}
	_, err := fmt.Fprintf(r.c.stdout, "%s: %s, %s, %.1f ms\n", o.message.name, text, count(len(o.answer.body), "byte"), ms(o.took))
	return err
}

// one prints the outcome of the only message: the reply alone goes to stdout.
func (r *report) one(o *outcome) error {
	if o.err != nil {
		r.c.complain("send: "+describe(o.err), hintFor(o.err))
		return nil
	}
	if o.answer.id != "" {
		r.c.say("%s, id %s, %.1f ms", o.answer.text, o.answer.id, ms(o.took))
	} else {
		r.c.say("%s, %.1f ms", o.answer.text, ms(o.took))
	}
	if o.answer.fault != "" {
		r.c.complain("fault "+o.answer.fault, "")
	}
	_, err := r.c.stdout.Write(o.answer.body)
	if err == nil && telemetry.IsTerminal(r.c.stdout) && len(o.answer.body) > 0 {
		_, err = r.c.stdout.Write([]byte("\n"))
	}
	return err
}

func (r *report) line(o *outcome) sentLine {
	l := sentLine{N: o.n, File: o.message.name, MS: ms(o.took), OK: o.ok()}
	if o.err != nil {
		l.Error = describe(o.err)
		return l
	}
	l.Status, l.Result, l.ID = o.answer.status, o.answer.text, o.answer.id
	l.Bytes, l.Fault = len(o.answer.body), o.answer.fault
	switch {
	case !r.single:
	case utf8.Valid(o.answer.body):
		reply := string(o.answer.body)
		l.Reply = &reply
	default:
		l.ReplyBase64 = o.answer.body
	}
	return l
}

// progress prints how far it is.
func (r *report) progress() {
	if r.single {
		if !r.live {
			r.c.say("waiting for the answer")
		}
		return
	}
	text := fmt.Sprintf("%d of %d sent, %d not ok", len(r.times), r.total, r.faults+r.failed)
	if !r.live {
		r.c.say("%s", text)
		return
	}
	fmt.Fprintf(r.c.stderr, "\r%s ", text)
	r.drawn = true
}

// wipe removes a line of progress from the screen before other lines come.
func (r *report) wipe() {
	if r.drawn {
		fmt.Fprintf(r.c.stderr, "\r%s\r", strings.Repeat(" ", 60))
		r.drawn = false
	}
}

// finish prints the summary. interrupted says that the plan was cut short.
func (r *report) finish(took time.Duration, interrupted bool) error {
	r.wipe()
	s := r.summary(took)
	switch {
	case r.single:
	case r.c.json:
		if err := r.c.printJSON(s); err != nil {
			return err
		}
	default:
		_, err := fmt.Fprintf(r.c.stdout, "%d sent, %d ok, %s, %d failed in %.2f s (%.0f/s); p50 %.1f ms, p99 %.1f ms, max %.1f ms\n",
			s.Sent, s.OK, count(s.Faults, "fault"), s.Failed, s.Seconds, s.PerSecond, s.P50, s.P99, s.Max)
		if err != nil {
			return err
		}
	}
	if interrupted && len(r.times) < r.total {
		r.c.complain(fmt.Sprintf("send: interrupted, %d of %d not sent", r.total-len(r.times), r.total), "")
		return errReported
	}
	if r.faults+r.failed+r.unread > 0 {
		return errReported
	}
	return nil
}

func (r *report) summary(took time.Duration) sentSummary {
	n := len(r.times)
	s := sentSummary{
		Sent: n, OK: n - r.faults - r.failed, Faults: r.faults, Failed: r.failed,
		Seconds: took.Seconds(), PerSecond: float64(n) / max(took.Seconds(), 1e-9),
	}
	if n > 0 {
		slices.Sort(r.times)
		s.P50, s.P99, s.Max = ms(percentile(r.times, 50)), ms(percentile(r.times, 99)), ms(r.times[n-1])
	}
	return s
}

// percentile is the nearest rank: the least of sorted times that p percent of
// them do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// describe says why no answer came, without the noise of the layers between.
func describe(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if e, ok := errors.AsType[*net.OpError](err); ok && e.Addr != nil {
			return e.Addr.String() + ": connection refused"
		}
		return "connection refused"
	case err == io.EOF:
		return "the connection was closed without an answer"
	}
	return err.Error()
}

// hintFor says what to try.
func hintFor(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "is the gateway running, and is the port right?"
	}
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "there is no TLS at this port, write http:// in --to"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "there is no TLS at this port, write http:// or framed:// in --to"
	}
	return ""
}
