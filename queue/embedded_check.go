package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/minio/highwayhash"

	"soapway/internal/durable"
)

// A store is looked through before the server starts, since the server mends
// what it finds by cutting off and deleting: one damaged record costs it all that
// stand behind it in their block. What is damaged is copied to damaged-TIME/
// first; then its block is written anew from the records that are whole. Reading
// costs little beside the disk, which the scan of the log reads anyway
// (BenchmarkBlockWalk: 7.7 GB/s).
type startCheck struct {
	dir      string
	id       *identity
	log      *slog.Logger
	observer StoreObserver
	aside    aside

	found []Damage
	// remade are the streams whose description was lost: the server makes them
	// anew around their blocks.
	remade map[string]bool
}

// run looks at the streams of a store. An error means that the server must not
// see the store, and that nothing was changed but for what was set aside.
func (c *startCheck) run() error {
	c.aside.store, c.remade = c.dir, map[string]bool{}
	for _, n := range streamNames {
		if made := c.id.Streams && (n.stream != streamReply || c.id.Replies); !made && !c.id.lost {
			continue // a first start that did not come far: nothing was ever kept in it
		}
		if _, err := os.Stat(streamDir(c.dir, n.stream)); errors.Is(err, fs.ErrNotExist) {
			continue // openStream knows whether it must be there
		} else if err != nil {
			return err
		}
		if err := c.description(n.stream); err != nil {
			return err
		}
		if err := c.blocks(n.stream); err != nil {
			return err
		}
	}
	if c.aside.dir != "" && len(c.found) > 0 {
		c.log.Error("the store was damaged: what is whole goes on, and the damaged files were kept", "kept", c.aside.dir, "places", len(c.found))
	}
	return nil
}

func (c *startCheck) report(d Damage) {
	c.found = append(c.found, d)
	tellDamage(c.log, c.observer, &d)
}

// tellDamage tells log and observer of damage.
func tellDamage(log *slog.Logger, o StoreObserver, d *Damage) {
	log.Error("damage in the store", "reason", d.Reason, "kind", d.Stream, "file", d.File, "offset", d.Offset, "octets", d.Length, "id", d.ID, "route", d.Route, "seq", d.Seq)
	o.Damage(d)
}

// description looks at what the server keeps about a stream. It can be made anew.
func (c *startCheck) description(stream string) error {
	dir := streamDir(c.dir, stream)
	meta, sum := filepath.Join(dir, "meta.inf"), filepath.Join(dir, "meta.sum")
	text, err := os.ReadFile(meta)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("queue: %w", err)
	}
	want, sumErr := os.ReadFile(sum)
	if sumErr != nil && !errors.Is(sumErr, fs.ErrNotExist) {
		return fmt.Errorf("queue: %w", sumErr)
	}
	if err == nil && sumErr == nil && metaSum(stream, text) == string(want) {
		return nil
	}
	for _, name := range []string{meta, sum} {
		if err := c.aside.move(name); err != nil {
			return fmt.Errorf("queue: set aside: %w", err)
		}
	}
	c.remade[stream] = true
	c.report(Damage{Stream: holds(stream), File: c.rel(meta), Reason: "the description of the stream is missing or damaged and is made anew"})
	return nil
}

func metaSum(stream string, text []byte) string {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the length of the key is right
	}
	_, _ = h.Write(text) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

func (c *startCheck) rel(name string) string {
	if r, err := filepath.Rel(c.dir, name); err == nil {
		return r
	}
	return name
}

// blocks looks through the blocks of a stream.
func (c *startCheck) blocks(stream string) error {
	files, err := blockFiles(c.dir, stream)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	var broken []Damage
	whole := wholeBlocks(files)
	for i := range files {
		if whole[i] {
			continue
		}
		d, err := c.block(&files[i], i == len(files)-1)
		if err != nil {
			return fmt.Errorf("queue: %s can not be looked through and was left as it is: %w", files[i].path, err)
		}
		broken = append(broken, d...)
	}
	for _, d := range broken {
		c.report(d)
	}
	if len(broken) == 0 {
		return nil
	}
	// It describes the blocks as they were. The server makes it anew.
	return c.aside.move(filepath.Join(streamDir(c.dir, stream), "msgs", "index.db"))
}

// wholeBlocks says which blocks have nothing but whole records. It reads as many at
// once as there are processors; a start waits for it.
func wholeBlocks(files []blockFile) []bool {
	whole := make([]bool, len(files))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			var buf bytes.Buffer
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				b, err := files[i].readInto(&buf)
				if err != nil {
					continue // block tells of it
				}
				wounds, _, err := walkBlock(&files[i], b)
				whole[i] = err == nil && len(wounds) == 0 && len(b) > 0
			}
		})
	}
	wg.Wait()
	return whole
}

// block looks through one block and mends it.
func (c *startCheck) block(f *blockFile, last bool) ([]Damage, error) {
	b, err := f.read()
	if err != nil {
		return nil, err
	}
	wounds, end, err := walkBlock(f, b)
	if err != nil || len(wounds) == 0 && len(b) > 0 {
		return nil, err
	}
	unfinished := last && !c.id.Clean && len(wounds) == 1 && wounds[0].tail
	if unfinished && end > 0 {
		end++ // it has all that a file before it had, and more
	}
	if old, ok := c.twin(f, end); ok {
		return nil, c.fromTwin(f, old)
	}
	if len(b) == 0 {
		if last {
			return nil, nil // a block is made before its first record
		}
		return []Damage{{Stream: holds(f.stream), File: c.rel(f.path), Reason: "the block is empty: what it held is lost"}}, nil
	}
	if unfinished {
		return nil, c.unfinished(f, b[wounds[0].from:])
	}
	if err := c.aside.copy(f.path); err != nil {
		return nil, err
	}
	if err := c.taint(f); err != nil {
		return nil, err
	}
	if err := mend(f, b, wounds); err != nil {
		return nil, err
	}
	return damages(f, c.rel(f.path), wounds), nil
}

// walkBlock returns what is damaged in a block, and the highest number in it.
func walkBlock(f *blockFile, b []byte) (wounds []wound, end uint64, err error) {
	wounds, err = newBlockReader(f.stream, f.index).walk(b, func(r blockRecord) error { end = max(end, r.seq); return nil })
	return wounds, end, err
}

// taint makes durable that the store was damaged, before its block is mended: a kill
// in between must not leave one that looks whole, nor the index of what it was.
func (c *startCheck) taint(f *blockFile) error {
	id := *c.id
	id.Clean, id.Doubt = false, true
	if err := id.write(c.dir); err != nil {
		return err
	}
	c.id.Doubt = true
	return c.aside.move(filepath.Join(filepath.Dir(f.path), "index.db"))
}

// unfinished keeps the end of the last block that a kill or a power cut has left.
// What is acknowledged was on the disk, so it holds nothing that anybody relies
// on: a loss of more shows as a gap. The server cuts it off.
func (c *startCheck) unfinished(f *blockFile, tail []byte) error {
	if len(bytes.Trim(tail, "\x00")) == 0 {
		c.log.Info("the end of a block was never written", "file", c.rel(f.path), "octets", len(tail))
		return nil
	}
	c.log.Warn("the last record was not finished; it was set aside", "file", c.rel(f.path), "octets", len(tail))
	return c.aside.keep(f.path, ".tail", tail)
}

// mend writes a block anew without its wounds, so that a power cut leaves the old
// or the new one. One without a whole record goes.
func mend(f *blockFile, b []byte, wounds []wound) error {
	var rest []byte
	at := 0
	for _, w := range wounds {
		rest = append(rest, b[at:w.from]...)
		at = w.to
	}
	rest = append(rest, b[at:]...)
	if len(rest) == 0 {
		if err := os.Remove(f.path); err != nil {
			return err
		}
		return durable.SyncDir(filepath.Dir(f.path))
	}
	return replaceBlock(f, rest)
}

// replaceBlock makes b the content of a block.
func replaceBlock(f *blockFile, b []byte) error {
	fresh := f.path + ".mended"
	if err := writeSynced(fresh, bytes.NewReader(b)); err != nil {
		return err
	}
	if err := os.Rename(fresh, f.path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(f.path))
}

// damages tells of the wounds of a block.
func damages(f *blockFile, name string, wounds []wound) []Damage {
	out := make([]Damage, len(wounds))
	for i, w := range wounds {
		out[i] = Damage{
			Stream: holds(f.stream), File: name, Offset: int64(w.from), Length: int64(w.to - w.from),
			ID: w.id, Route: w.route, Reason: "octets are not as they were written",
		}
	}
	return out
}

// lost tells of what the server misses, by its own account and by that of the
// last orderly stop: of the log every number is known (Embedded.Scan), of the
// rest only how many there were.
func (s *Embedded) lost(stream string, i *streamInfo, counts map[string]uint64) {
	if stream == streamLog {
		return
	}
	var missing uint64
	if i.State.Lost != nil {
		missing = uint64(len(i.State.Lost.Msgs))
	}
	if had := counts[stream]; s.info.Clean && had > i.State.Messages {
		missing = max(missing, had-i.State.Messages)
	}
	if missing > 0 {
		d := Damage{
			Stream: holds(stream), File: filepath.Join("jetstream", "$G", "streams", stream, "msgs"),
			Reason: fmt.Sprintf("%d records are missing", missing),
		}
		tellDamage(s.opt.Log, s.opt.Observer, &d)
		s.finding(d)
	}
}

// finding takes up what is lost, for who asks later.
func (s *Embedded) finding(d Damage) {
	s.foundMu.Lock()
	defer s.foundMu.Unlock()
	s.found = append(s.found, d)
}
