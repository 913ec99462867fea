package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// scrubEvery is the pause between two looks of a running store at itself.
	// Every start looks, too.
	scrubEvery = 24 * time.Hour
	// scrubRate is how many octets a second such a look reads.
	scrubRate = 8 << 20
	// scrubRecheck is how long a damaged place must stay damaged before it is
	// one: the server may have been writing there.
	scrubRecheck = 200 * time.Millisecond
)

// Scrubbed is what a look through a store has read and found.
type Scrubbed struct {
	Records uint64   `json:"records"` // also those removed and not yet wiped from their block
	Files   uint64   `json:"files"`
	Octets  uint64   `json:"octets"`
	Damage  []Damage `json:"damage,omitempty"`
}

// Scrub reads all of the store and compares every checksum, without the server:
// it would mend by cutting off. Damaged files are kept in damaged-TIME/ as they
// are; what was damaged stays where it is until the next start. progress, which
// may be nil, is told how many octets of how many are read. rate bounds the octets
// a second, 0 means no bound.
func (q *Queue) Scrub(ctx context.Context, rate int64, progress func(done, total uint64)) (*Scrubbed, error) {
	s, ok := q.store.(*Embedded)
	if !ok {
		return nil, errors.New("queue: this store has no files")
	}
	found, err := s.scrub(ctx, &scrub{rate: rate, progress: progress})
	if err != nil {
		return nil, err
	}
	s.alarm(found)
	if s.opt.Inspect { // nobody but the caller was told of what the start has mended
		s.foundMu.Lock()
		defer s.foundMu.Unlock()
		found.Damage = append(slices.Clone(s.found), found.Damage...)
	}
	return found, nil
}

// scrub is one look through a store.
type scrub struct {
	rate     int64
	progress func(done, total uint64)
	// each, which may be nil, is called for every whole record of the log with
	// the file that has its body, nil if it has it itself; ended once all of the
	// log was read.
	each  func(blockRecord, *claim) error
	ended func() error

	s      *Embedded
	out    Scrubbed
	total  uint64
	began  time.Time
	rested time.Time
	seen   seqSet // numbers of the log with a whole record
	aside  aside
	// claims are the files that records seem to have, by name.
	claims map[string]claimant
}

// claimant is the record that claims a file.
type claimant struct {
	claim
	stream  string
	seq     uint64
	subject string
}

func (s *Embedded) scrub(ctx context.Context, sc *scrub) (*Scrubbed, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	sc.s, sc.began, sc.aside.store = s, time.Now(), s.dir
	if sc.progress == nil {
		sc.progress = func(uint64, uint64) {}
	}
	sc.claims, sc.total = map[string]claimant{}, uint64(max(0, s.blobs.octets.Load()))
	files := map[string][]blockFile{}
	streams := s.streams()
	for _, name := range streams {
		all, err := blockFiles(s.dir, name)
		if err != nil {
			return nil, fmt.Errorf("queue: scrub: %w", err)
		}
		files[name] = all
		for i := range all {
			sc.total += uint64(all[i].size)
		}
	}
	for _, name := range streams {
		last := s.commit.durable.Load() // before any of the files is read
		for i := range files[name] {
			if err := sc.file(ctx, &files[name][i]); err != nil {
				return nil, err
			}
		}
		if name == streamLog {
			sc.missing(last)
			if sc.ended != nil {
				if err := sc.ended(); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, c := range sc.claims {
		if err := sc.body(ctx, &c); err != nil {
			return nil, err
		}
	}
	return &sc.out, nil
}

// body reads a body that is a file.
func (sc *scrub) body(ctx context.Context, c *claimant) error {
	err := sc.s.proof(ctx, &c.claim, sc.breathe)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrKey) {
		return err
	}
	sc.out.Files++
	sc.out.Octets += uint64(c.size)
	sc.progress(min(sc.out.Octets, sc.total), sc.total)
	if err == nil {
		return sc.paced(ctx)
	}
	id, route, live := sc.s.claims(c)
	if !live {
		return nil // it was removed, and its file with it
	}
	sc.out.Damage = append(sc.out.Damage, Damage{Stream: "bodies", File: blobsName + "/" + c.name, ID: id, Route: route, Reason: err.Error()})
	return nil
}

// claims says whose body a file is, and whether the message is still there.
func (s *Embedded) claims(c *claimant) (id, route string, live bool) {
	if c.stream == streamLog {
		m, err := s.Get(c.seq)
		if err != nil {
			return "", "", false
		}
		return m.ID, m.Route, true
	}
	r, err := s.js.get(c.stream, 0, c.subject)
	if err != nil {
		return "", "", false
	}
	h, err := decodeDeadHead(r.Header.Get(headerDead))
	if err != nil || h.body.claimed() != c.name {
		return "", "", false
	}
	return h.ID, h.Route, true
}

// proof reads the body that a claim is to, and fails if it is not what was written.
func (s *Embedded) proof(ctx context.Context, c *claim, breathe func()) error {
	r, err := (&storedBlob{claim: *c, in: s.blobs}).Open()
	if err != nil {
		return err
	}
	buf := make([]byte, backupChunk)
	for err == nil {
		if _, err = r.Read(buf); err == nil {
			err = ctx.Err()
		}
		breathe()
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, r.Close())
}

// file reads one block.
func (sc *scrub) file(ctx context.Context, f *blockFile) error {
	b, wounds, records, err := sc.walk(f)
	if len(wounds) > 0 {
		// The server may have been at it.
		if err := pause(ctx, scrubRecheck); err != nil {
			return err
		}
		var again []wound
		b, again, records, err = sc.walk(f)
		wounds = both(wounds, again)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // everything in it was removed
	}
	if err != nil {
		if errors.Is(err, ErrKey) {
			return err
		}
		sc.out.Damage = append(sc.out.Damage, Damage{Stream: holds(f.stream), File: sc.rel(f), Reason: "the file can not be read: " + err.Error()})
		return nil
	}
	sc.out.Files++
	sc.out.Records += records
	sc.out.Octets += uint64(f.size)
	if len(wounds) > 0 {
		if _, twice := sc.s.keptFiles.LoadOrStore(f.path, true); twice {
			// The evidence is there; it would be kept anew every day.
		} else if err := sc.aside.copy(f.path); err != nil {
			sc.s.opt.Log.Error("a damaged file could not be kept", "file", sc.rel(f), "err", err)
		}
		sc.out.Damage = append(sc.out.Damage, damages(f, sc.rel(f), wounds)...)
	}
	if sc.each != nil && f.stream == streamLog {
		_, err := newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error {
			sc.breathe()
			m, whole, err := sc.s.js.keys.Load().opened(&r)
			if err != nil || !whole || r.seq == 0 {
				return err
			}
			return sc.each(r, claimed(&scanned{msg: m}))
		})
		if err != nil {
			return err
		}
	}
	sc.progress(min(sc.out.Octets, sc.total), sc.total)
	return sc.paced(ctx)
}

// paced waits as long as the rate asks for.
func (sc *scrub) paced(ctx context.Context) error {
	if sc.rate <= 0 {
		return ctx.Err()
	}
	due := time.Duration(float64(sc.out.Octets) / float64(sc.rate) * float64(time.Second))
	return pause(ctx, due-time.Since(sc.began))
}

// A look through a running store works for breathWork and then rests for
// breathRest: a message passes through a handful of goroutines on its way to the
// disk, and each of them would wait for a processor that is busy here
// (BenchmarkBackupBeside).
const (
	breathWork = time.Millisecond
	breathRest = 4 * time.Millisecond
)

// breathe lets others work. It is called for each record.
func (sc *scrub) breathe() {
	if sc.s.opt.Inspect {
		return
	}
	if time.Since(sc.rested) > breathWork {
		time.Sleep(breathRest)
		sc.rested = time.Now()
	}
}

// pause waits unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// both returns the wounds that are in a and in b. The end of a block that grows
// is another one each time.
func both(a, b []wound) (out []wound) {
	for _, w := range b {
		for _, v := range a {
			if v == w {
				out = append(out, w)
			}
		}
	}
	return out
}

func (sc *scrub) rel(f *blockFile) string {
	if r, err := filepath.Rel(sc.s.dir, f.path); err == nil {
		return r
	}
	return f.path
}

// walk reads a block and compares the checksums of the server and ours.
func (sc *scrub) walk(f *blockFile) (b []byte, wounds []wound, records uint64, err error) {
	b, err = f.read()
	if err != nil {
		return nil, nil, 0, err
	}
	f.size = int64(len(b))
	var ours []wound
	wounds, err = newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error {
		sc.breathe()
		records++
		if r.seq == 0 || r.subject == "" {
			return nil
		}
		m, whole, err := sc.s.js.keys.Load().opened(&r)
		if err != nil {
			return err
		}
		if whole {
			if f.stream == streamLog {
				sc.seen.add(r.seq)
			}
			if c := claimed(&scanned{msg: m}); c != nil {
				sc.claims[c.name] = claimant{*c, f.stream, r.seq, r.subject}
			}
			return nil
		}
		w := wound{from: r.at, to: r.at + len(r.raw)}
		w.id, w.route = hintOf(r.raw)
		ours = append(ours, w)
		return nil
	})
	return b, append(wounds, ours...), records, err
}

// opened returns a record as it was before it was sealed. whole says that it is
// what was written, by our own checksum. It fails with [ErrKey] if the key is missing.
func (k *Keys) opened(r *blockRecord) (m *nats.Msg, whole bool, err error) {
	m = &nats.Msg{Header: nats.Header{}, Data: r.data}
	for _, name := range recordHeaders {
		if v, ok := r.value(name); ok {
			m.Header.Set(name, v)
		}
	}
	if m.Header.Get(headerSealed) != "" {
		m.Data = slices.Clone(m.Data)
		if _, err := k.openRecord(r.subject, m, true); err != nil {
			if errors.Is(err, ErrKey) {
				return m, false, err
			}
			return m, false, nil
		}
	}
	_, header := recordHeader(m)
	return m, verify(header, m.Data) == nil, nil
}

// recordHeaders are the names of the one header that a record has, sealed or not.
var recordHeaders = []string{headerMessage, headerDead, headerReply, headerValue, headerSealed}

// recordHeader returns the header of a record, empty if it has none of ours.
func recordHeader(m *nats.Msg) (name, value string) {
	for _, name := range recordHeaders {
		if v := m.Header.Get(name); v != "" {
			return name, v
		}
	}
	return "", ""
}

// missing looks for numbers of the log that nothing has removed and that no file has.
func (sc *scrub) missing(last uint64) {
	for seq := sc.s.trim.start(); seq <= last; seq++ {
		if sc.seen.has(seq) || sc.s.trim.removed(seq) {
			continue
		}
		if _, err := sc.s.Get(seq); err == nil || errors.Is(err, ErrNotFound) {
			continue // the block was written anew while it was read
		}
		sc.out.Damage = append(sc.out.Damage, Damage{Stream: holds(streamLog), Seq: seq, Reason: "a message is missing in the log"})
	}
}

// alarm tells log and observer of what a scrub has found.
func (s *Embedded) alarm(found *Scrubbed) {
	for i := range found.Damage {
		d := &found.Damage[i]
		tellDamage(s.opt.Log, s.opt.Observer, d)
		if d.Stream == holds(streamLog) && d.Seq != 0 {
			s.opt.Observer.Gap(d.Seq, d.Seq)
		}
	}
}

// scrubber looks through the store once a day, slowly.
func (s *Embedded) scrubber(ctx context.Context) {
	for pause(ctx, s.opt.scrubEvery) == nil {
		found, err := s.scrub(ctx, &scrub{rate: scrubRate})
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return
		case err != nil:
			s.opt.Log.Error("the store could not be looked through", "err", err)
		case len(found.Damage) > 0:
			s.alarm(found)
		default:
			s.opt.Log.Info("the store was looked through and is whole", "records", found.Records, "octets", found.Octets)
		}
	}
}
