package admin

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// kept is a scripted queue with a store.
type kept struct {
	scripted
	backup func(w io.Writer) error
	scrub  func(progress func(done, total uint64)) (*Scrubbed, error)
}

var _ Keeper = (*kept)(nil)

func (k *kept) Backup(_ context.Context, w io.Writer) error { return k.backup(w) }

func (k *kept) Scrub(_ context.Context, progress func(done, total uint64)) (*Scrubbed, error) {
	return k.scrub(progress)
}

// TestStoreStreams: answers that are written while they are made, and what is told
// of an error before and after the first octet.
func TestStoreStreams(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, tt := range []struct {
		name, path string
		queue      Queue
		status     int
		media      string
		want       []string // in the body
	}{
		{
			"backup", "/store/backup",
			&kept{backup: func(w io.Writer) error { _, err := io.WriteString(w, "octets"); return err }},
			200, "application/octet-stream",
			[]string{"octets"},
		},
		{
			"refused", "/store/backup",
			&kept{backup: func(io.Writer) error { return ErrBackup }},
			409, "application/problem+json",
			[]string{`"urn:soapway:problem:backup-running"`, "try again when it is done"},
		},
		{
			"broken off", "/store/backup",
			&kept{backup: func(w io.Writer) error { _, _ = io.WriteString(w, "octets"); return broken }},
			200, "application/octet-stream",
			[]string{"octets"},
		},
		{
			"scrub", "/store/scrub",
			&kept{scrub: func(func(uint64, uint64)) (*Scrubbed, error) {
				return &Scrubbed{Records: 7, Damage: []Damage{{File: "a.blk", Reason: "flipped"}}}, nil
			}},
			200, "application/x-ndjson",
			[]string{`{"result":{"records":7,`, `"damage":[{"file":"a.blk","reason":"flipped"}]`},
		},
		{
			"scrub of a whole store", "/store/scrub",
			&kept{scrub: func(func(uint64, uint64)) (*Scrubbed, error) { return &Scrubbed{}, nil }},
			200, "application/x-ndjson",
			[]string{`"damage":[]`},
		},
		{
			"scrub fails", "/store/scrub",
			&kept{scrub: func(func(uint64, uint64)) (*Scrubbed, error) { return nil, ErrClosed }},
			503, "application/problem+json",
			[]string{`"urn:soapway:problem:store-unavailable"`},
		},
		{
			"no store", "/store/backup",
			noQueue{},
			503, "application/problem+json",
			[]string{"no route stores messages"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(Options{Queue: func() Queue { return tt.queue }}, "POST", "/api/v1"+tt.path, "")
			if w.Code != tt.status || w.Header().Get("Content-Type") != tt.media {
				t.Errorf("got %d, %s, want %d, %s", w.Code, w.Header().Get("Content-Type"), tt.status, tt.media)
			}
			if missing := slices.DeleteFunc(tt.want, func(s string) bool { return strings.Contains(w.Body.String(), s) }); len(missing) > 0 {
				t.Errorf("got %s, want %q in it", w.Body, missing)
			}
		})
	}
	q := &kept{}
	if w := ask(Options{Queue: func() Queue { return q }}, "GET", "/api/v1/store/backup", ""); w.Code != 405 {
		t.Errorf("GET: got %d, want 405", w.Code)
	}
	if w := ask(Options{Queue: func() Queue { return q }}, "POST", "/api/v1/store/backup", "", "Origin", "http://evil.example"); w.Code != 403 {
		t.Errorf("from another page: got %d, want 403", w.Code)
	}
}
