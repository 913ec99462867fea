package soapcodec

import (
	"bytes"
	"math"
	"slices"
)

// Edit says: replace the octets [Start,End) of the scanned stream by With.
// Edits come in ascending order and do not overlap.
type Edit struct {
	Start, End int64
	With       []byte
}

// Apply appends doc with the edits made.
func Apply(dst, doc []byte, edits []Edit) []byte {
	var at int64
	for _, e := range edits {
		dst = append(dst, doc[at:e.Start]...)
		dst = append(dst, e.With...)
		at = e.End
	}
	return append(dst, doc[at:]...)
}

// TakeEdits returns the edits found so far and not yet taken, and forgets them;
// the slice is the caller's. There are none before the head is known, because
// a signature in the header may withdraw them.
func (d *Decoder) TakeEdits() []Edit { return d.edits.take(d.held()) }

// Settled is the stream offset before which no further edit can come: 0 until
// the head is known, then the end of the last token, or the place that a
// translation still has to decide about.
func (d *Decoder) Settled() int64 {
	if !d.headKnown && d.opt.edits() {
		return 0
	}
	return min(d.sc.InputOffset(), d.held())
}

// held is the offset from which on edits are not handed out yet.
func (d *Decoder) held() int64 {
	if d.tr == nil {
		return math.MaxInt64
	}
	return d.tr.held()
}

var (
	oneBlank    = []byte(" ")
	doubleQuote = []byte(`"`)
)

// editor collects edits. Invariant: list is ascending and without overlap,
// because tokens come in order and each octet belongs to one token.
type editor struct {
	normalize bool // frame edits are made; false also once they are withdrawn
	open      bool // edits may be taken
	taken     bool // a normalizing edit is with the caller
	list      []pendingEdit
}

type pendingEdit struct {
	Edit
	stays bool // not made by normalization: stays when that is withdrawn
}

func (e *editor) reset(normalize bool) {
	clear(e.list)
	*e = editor{normalize: normalize, list: e.list[:0]}
	if cap(e.list) > 4096 {
		e.list = nil
	}
}

// take hands out the edits before the offset upto.
func (e *editor) take(upto int64) []Edit {
	if !e.open || len(e.list) == 0 {
		return nil
	}
	n := len(e.list)
	for n > 0 && (e.list[n-1].Start >= upto || e.list[n-1].End > upto) {
		n--
	}
	if n == 0 {
		return nil
	}
	out := make([]Edit, n)
	for i := range out {
		out[i] = e.list[i].Edit
		e.taken = e.taken || !e.list[i].stays
	}
	e.list = slices.Delete(e.list, 0, n)
	return out
}

// withdraw takes back all normalizing edits; false if that is too late.
func (e *editor) withdraw() bool {
	if e.taken {
		return false
	}
	e.normalize = false
	kept := e.list[:0]
	for _, p := range e.list {
		if p.stays {
			kept = append(kept, p)
		}
	}
	e.list = kept
	return true
}

// remove deletes [start,end), which lies between the tags of the frame.
// Neighbours are joined: a gap of a thousand comments is one edit.
func (e *editor) remove(start, end int64) {
	if !e.normalize || start == end {
		return
	}
	if n := len(e.list); n > 0 {
		if last := &e.list[n-1]; !last.stays && last.End == start && len(last.With) == 0 {
			last.End = end
			return
		}
	}
	e.replace(start, end, nil)
}

// removeBlock deletes a header block, whatever was to become of its inside.
func (e *editor) removeBlock(start, end int64) { e.put(start, end, nil) }

// put adds an edit that is not normalization's and goes before it: what
// normalization wants within [start,end) is dropped. It may come out of order,
// but only among the edits of the last tokens, which are few. An insertion stands before a
// replacement that begins at its place, and behind earlier insertions there.
func (e *editor) put(start, end int64, with []byte) {
	e.cut(start, end)
	i := len(e.list)
	for i > 0 {
		p := &e.list[i-1]
		if p.Start < start || p.Start == start && p.Start == p.End {
			break
		}
		i--
	}
	j := i
	for start < end && j < len(e.list) && e.list[j].End <= end && e.list[j].Start < end {
		j++
	}
	if start < end && i > 0 && e.list[i-1].End >= end {
		return // within what is deleted already
	}
	e.list = slices.Replace(e.list, i, j, pendingEdit{Edit{Start: start, End: end, With: with}, true})
}

// cut takes [start,end) out of what normalization removes and that reaches beyond
// it, such as a gap of several tokens: the rest of the gap may be withdrawn, what
// is put there may not.
func (e *editor) cut(start, end int64) {
	for k := len(e.list) - 1; k >= 0 && e.list[k].End > start; k-- {
		p := e.list[k]
		if p.stays || len(p.With) > 0 || p.Start >= end || start == end || p.Start >= start && p.End <= end {
			continue
		}
		var rest []pendingEdit
		if p.Start < start {
			rest = append(rest, pendingEdit{Edit{Start: p.Start, End: start}, false})
		}
		if p.End > end {
			rest = append(rest, pendingEdit{Edit{Start: end, End: p.End}, false})
		}
		e.list = slices.Replace(e.list, k, k+1, rest...)
	}
}

func (e *editor) replace(start, end int64, with []byte) {
	e.list = append(e.list, pendingEdit{Edit{Start: start, End: end, With: with}, false})
}

// tag makes white space and quotes inside a tag canonical: one blank before
// each attribute, none elsewhere, values between double quotes. Other octets of
// a value stay as written. raw is a tag that the scanner has accepted; it is
// empty for the end that a self-closing tag implies.
func (e *editor) tag(raw []byte, base int64) {
	if !e.normalize || len(raw) == 0 {
		return
	}
	i := 1
	for i < len(raw) && !isSpace(raw[i]) && raw[i] != '>' && !(raw[i] == '/' && i > 1) {
		i++
	}
	for i < len(raw) {
		gap := i
		for i < len(raw) && isSpace(raw[i]) {
			i++
		}
		if i == len(raw) || raw[i] == '>' || raw[i] == '/' {
			e.blanks(raw[gap:i], nil, base+int64(gap))
			return
		}
		e.blanks(raw[gap:i], oneBlank, base+int64(gap))
		i = e.attribute(raw, i, base)
	}
}

// attribute handles one attribute at raw[i:] and returns the index behind it.
func (e *editor) attribute(raw []byte, i int, base int64) int {
	for i < len(raw) && raw[i] != '=' && !isSpace(raw[i]) {
		i++
	}
	gap := i
	for i < len(raw) && isSpace(raw[i]) {
		i++
	}
	e.blanks(raw[gap:i], nil, base+int64(gap))
	i++ // the equals sign
	gap = i
	for i < len(raw) && isSpace(raw[i]) {
		i++
	}
	e.blanks(raw[gap:i], nil, base+int64(gap))
	if i >= len(raw) {
		return i
	}
	quote := raw[i]
	end := i + 1
	for end < len(raw) && raw[end] != quote {
		end++
	}
	if quote == '\'' && end < len(raw) {
		e.requote(raw[i+1:end], base+int64(i), base+int64(end))
	}
	return end + 1
}

// requote turns a value between single quotes at open and closing into one
// between double quotes. A value that contains a double quote is replaced as a
// whole: an edit per quote would cost forty octets for one.
func (e *editor) requote(value []byte, opening, closing int64) {
	if bytes.IndexByte(value, '"') < 0 {
		e.replace(opening, opening+1, doubleQuote)
		e.replace(closing, closing+1, doubleQuote)
		return
	}
	with := append([]byte{'"'}, bytes.ReplaceAll(value, doubleQuote, []byte("&quot;"))...)
	e.replace(opening, closing+1, append(with, '"'))
}

// blanks makes a run of white space what it should be.
func (e *editor) blanks(run, want []byte, at int64) {
	if !bytes.Equal(run, want) {
		e.replace(at, at+int64(len(run)), want)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
