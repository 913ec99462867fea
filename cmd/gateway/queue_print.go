package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"soapway/internal/admin"
)

// table starts a table; what is not flushed is not there.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// row writes the cells of a row, each on one line and without what a terminal
// would take for a command: much of it was written by callers.
func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		cells[i] = clean(c, 80)
		if c == "" {
			cells[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // the table keeps errors for Flush
}

// printRoutes writes the counts of routes.
func printRoutes(out io.Writer, routes []admin.RouteStats, now time.Time) error {
	w := table(out)
	row(w, "ROUTE", "BACKEND", "PENDING", "RETRYING", "DEAD", "ORPHANED", "UNDER WAY", "SIZE", "OLDEST", "STATE")
	for _, r := range routes {
		oldest := ""
		if !r.Oldest.IsZero() {
			oldest = age(now.Sub(r.Oldest))
		}
		row(w, r.Route, r.Destination, strconv.Itoa(r.Pending), strconv.Itoa(r.Retrying), strconv.Itoa(r.Dead), strconv.Itoa(r.Orphaned),
			strconv.Itoa(r.InFlight), size(r.Bytes), oldest, routeState(&r, now))
	}
	return w.Flush()
}

// gone reports whether messages are stored of a route that was removed.
func gone(r *admin.RouteStats) bool {
	return r.Destination == "" && r.Orphaned+r.Dead > 0 && !r.Loading
}

// routeState says what keeps the messages of a route from being sent.
func routeState(r *admin.RouteStats, now time.Time) string {
	var s []string
	if r.Loading {
		s = append(s, "loading")
	}
	if r.Paused {
		s = append(s, "paused")
	}
	if r.Stopped > 0 {
		s = append(s, count(r.Stopped, "key")+" stopped by a dead letter")
	}
	if gone(r) {
		s = append(s, "route is gone")
	}
	switch r.Held {
	case "operator":
		s = append(s, "backend is held")
	case "credentials":
		s = append(s, "backend refuses the gateway's credentials"+asked(r, now))
	}
	if r.Down {
		down := "down" + asked(r, now)
		if r.LastError != "" {
			down += ": " + r.LastError
		}
		s = append(s, down)
	}
	if len(s) == 0 {
		s = append(s, "ok")
	}
	if r.Awaiting > 0 {
		s = append(s, count(r.Awaiting, "message")+" handed over, answer awaited")
	}
	return strings.Join(s, "; ")
}

// asked says when the backend of a route is asked again.
func asked(r *admin.RouteStats, now time.Time) string {
	if r.NextProbe.IsZero() {
		return ""
	}
	return ", asked again in " + age(max(0, r.NextProbe.Sub(now)))
}

// printEntries writes a page of messages.
func printEntries(out io.Writer, page []admin.Entry, header bool) error {
	if len(page) == 0 {
		return nil
	}
	w := table(out)
	if header {
		row(w, "ID", "STATE", "ATTEMPTS", "ACCEPTED", "SIZE", "OPERATION", "KEY", "REASON")
	}
	for i := range page {
		e := &page[i]
		row(w, e.ID, e.State, strconv.Itoa(e.Attempts), instant(e.Accepted), size(e.Size), e.Operation, e.Lane, entryReason(e))
	}
	return w.Flush()
}

func entryReason(e *admin.Entry) string {
	var s []string
	if e.InFlight {
		s = append(s, "under way")
	} else if !e.NextAttempt.IsZero() {
		s = append(s, "next "+instant(e.NextAttempt))
	}
	if e.WaitsFor != "" {
		s = append(s, "its key waits for dead letter "+e.WaitsFor)
	}
	if e.Stops {
		s = append(s, "its key stands still")
	}
	if e.Reason != "" {
		s = append(s, e.Reason)
	}
	if e.Text != "" {
		s = append(s, e.Text)
	}
	return strings.Join(s, ": ")
}

// printMessage writes all that is known of a message: facts, what happened to
// it, and what it is.
func printMessage(out io.Writer, m *admin.Message) error {
	e := &m.Message
	w := table(out)
	fact := func(name, value string) {
		if value != "" {
			row(w, name, value)
		}
	}
	fact("id", e.ID)
	fact("route", e.Route)
	fact("backend", e.Destination)
	state := e.State
	if e.InFlight {
		state += ", under way"
	}
	if e.Site != "" {
		state += ": " + e.Text
	}
	fact("state", state)
	fact("operation", e.Operation)
	fact("order key", e.Lane)
	fact("size", size(e.Size))
	fact("attempts", strconv.Itoa(e.Attempts))
	if err := w.Flush(); err != nil {
		return err
	}

	var b strings.Builder
	b.WriteString("\nhistory\n")
	event := func(t time.Time, format string, args ...any) {
		fmt.Fprintf(&b, "  %s  %s\n", instant(t), clean(fmt.Sprintf(format, args...), 2000))
	}
	event(e.Accepted, "accepted")
	for _, a := range m.Attempts {
		event(a.At, "%s", attemptLine(&a))
	}
	if e.Site != "" {
		event(e.Handed, "site %s has taken it", e.Site)
	}
	if !e.Died.IsZero() {
		event(e.Died, "dead: %s", entryReason(e))
	}
	if !e.Delivered.IsZero() {
		event(e.Delivered, "delivered")
	}
	if !e.NextAttempt.IsZero() {
		event(e.NextAttempt, "next attempt")
	}
	if len(m.Header) > 0 {
		b.WriteString("\nheader\n")
		for _, f := range m.Header {
			fmt.Fprintf(&b, "  %s: %s\n", clean(f.Name, 200), clean(f.Value, 2000))
		}
	}
	b.WriteString("\nenvelope")
	if m.EnvelopeCut {
		b.WriteString(" (only its start)")
	}
	b.WriteString("\n")
	if m.Envelope != "" || m.EnvelopeBase64 != nil || m.EnvelopeError == "" {
		b.WriteString(document(m.Envelope, m.EnvelopeBase64))
	}
	if m.Attachments > 0 {
		fmt.Fprintf(&b, "(%s not shown)\n", count(m.Attachments, "attachment"))
	}
	notShown(&b, m.EnvelopeError)
	if m.Reply != nil {
		b.WriteString("\nlast reply")
		if m.Reply.Type != "" {
			b.WriteString(" (" + clean(m.Reply.Type, 200) + ")")
		}
		b.WriteString("\n")
		if m.Reply.Body != "" || m.Reply.BodyBase64 != nil || m.Reply.Error == "" {
			b.WriteString(document(m.Reply.Body, m.Reply.BodyBase64))
		}
		notShown(&b, m.Reply.Error)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// notShown says why the rest of a document is missing.
func notShown(b *strings.Builder, why string) {
	if why != "" {
		fmt.Fprintf(b, "(the rest is not shown: %s)\n", clean(why, 500))
	}
}

func attemptLine(a *admin.Attempt) string {
	s := "attempt " + strconv.Itoa(a.N) + ":"
	if a.N == 0 {
		s = "" // the note of a replay
	}
	if a.Status != 0 {
		s += " " + strconv.Itoa(a.Status)
	}
	if a.Reason != "" {
		s += " " + a.Reason
	}
	if a.Maybe {
		s += "; may have been processed"
	}
	return strings.TrimSpace(s)
}

// document returns octets of a message for a terminal, ending with a line.
func document(text string, other []byte) string {
	if other != nil {
		return fmt.Sprintf("(%s that are not UTF-8; --json has them)\n", count(len(other), "octet"))
	}
	if text == "" {
		return "(empty)\n"
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, text)
	return strings.TrimRight(text, "\n") + "\n"
}

// clean returns s on one line, without control characters, cut to limit runes.
func clean(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(unicode.ReplacementChar)
		}
	}
	return b.String()
}

// instant writes a point in time to the second.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// age writes a duration with its two highest units.
func age(d time.Duration) string {
	d = d.Round(time.Second)
	switch day := 24 * time.Hour; {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// size writes octets in the largest unit that leaves a number of at least 1.
func size(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), -1
	for v >= 1024 && unit < 3 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[unit])
}
