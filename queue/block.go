package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// The server keeps a stream in block files, msgs/N.blk: records, one behind the
// other, each
//
//	LENGTH (4) SEQ (8) TIME (8) SUBJECTLEN (2) SUBJECT [HEADERLEN (4) HEADER] DATA HASH (8)
//
// with little-endian numbers. The highest bit of LENGTH says that there is a
// header; the two highest of SEQ mark what takes the place of a removed record.
// HASH is HighwayHash-64 of SEQ, TIME, SUBJECT, HEADER and DATA under a key made
// of the stream's name and N. What is read here is read without the server, for
// two reasons: on the first record that it finds damaged it cuts off the rest of
// its block, whole messages among it, and it passes over others without a word.
// The form is that of the nats-server version that go.mod pins;
// TestBlockFormat fails if another one writes it differently.
const (
	blockHeader  = 22
	blockHash    = 8
	blockLeast   = blockHeader + blockHash
	blockMost    = 32 << 20 // longest record that the server takes for one
	blockHasHdr  = 1 << 31
	blockErased  = 1 << 63
	blockRemoval = 1 << 62
	blockSuffix  = ".blk"
	// blockFileMost bounds what is read of one file: the server's blocks have at
	// most 16 MiB and the record that goes beyond.
	blockFileMost = 128 << 20
)

// blockRecord is one record of a block. Its slices alias the block.
type blockRecord struct {
	at      int    // offset in the block
	raw     []byte // all of it
	seq     uint64 // 0 where it says that something was removed
	subject string
	header  []byte
	data    []byte
}

// value returns the value of our header of this name.
func (r *blockRecord) value(name string) (string, bool) {
	const first = "NATS/1.0\r\n"
	rest, ok := bytes.CutPrefix(r.header, []byte(first))
	for ok && len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if k, v, found := bytes.Cut(line, []byte(":")); found && textproto.CanonicalMIMEHeaderKey(string(k)) == name {
			return string(bytes.TrimSpace(v)), true
		}
	}
	return "", false
}

// blockReader reads the blocks of one stream.
type blockReader struct {
	stream string
	index  uint32
	hash   *highwayhash.Digest64
	sum    [blockHash]byte
	hashed int // octets, of all that looked like a record
}

func newBlockReader(stream string, index uint32) *blockReader {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the length of the key is right
	}
	return &blockReader{stream: stream, index: index, hash: h}
}

// record reads the record at offset at of b; ok says that it is whole.
func (br *blockReader) record(b []byte, at int) (r blockRecord, ok bool) {
	if at+blockLeast > len(b) {
		return r, false
	}
	head := b[at : at+blockHeader]
	length := binary.LittleEndian.Uint32(head)
	hasHeader := length&blockHasHdr != 0
	length &^= blockHasHdr
	subject := int(binary.LittleEndian.Uint16(head[20:]))
	least := blockLeast + subject
	if hasHeader {
		least += 4
	}
	if length > blockMost || int(length) < least || at+int(length) > len(b) {
		return r, false
	}
	r.at, r.raw = at, b[at:at+int(length)]
	body := r.raw[blockHeader : len(r.raw)-blockHash]
	rest := body[subject:]
	headerLen := 0
	if hasHeader {
		headerLen = int(binary.LittleEndian.Uint32(rest))
		rest = rest[4:]
	}
	br.hashed += len(r.raw)
	br.hash.Reset()
	_, _ = br.hash.Write(head[4:20]) // never fails
	_, _ = br.hash.Write(body[:subject])
	_, _ = br.hash.Write(rest)
	if !bytes.Equal(br.hash.Sum(br.sum[:0]), r.raw[len(r.raw)-blockHash:]) || headerLen > len(rest) {
		return r, false
	}
	if seq := binary.LittleEndian.Uint64(head[4:]); seq&(blockErased|blockRemoval) == 0 {
		r.seq = seq
	}
	r.subject, r.header, r.data = string(body[:subject]), rest[:headerLen], rest[headerLen:]
	return r, true
}

// wound is a range of a block that is no record.
type wound struct {
	from, to int // octets
	tail     bool
	// What the range seems to have been, as it is written in a record's header;
	// empty if nobody can tell.
	id, route string
}

// walk calls f for every whole record of b and returns what lies between them.
// Behind a damaged record it looks for the next whole one: where the damaged one
// says that it ends, and else at every octet.
func (br *blockReader) walk(b []byte, f func(blockRecord) error) (wounds []wound, err error) {
	for at := 0; at < len(b); {
		r, ok := br.record(b, at)
		if ok {
			at += len(r.raw)
			if err := f(r); err != nil {
				return wounds, err
			}
			continue
		}
		next := br.next(b, at)
		w := wound{from: at, to: next, tail: next == len(b)}
		w.id, w.route = hintOf(b[at:next])
		wounds = append(wounds, w)
		at = next
	}
	return wounds, nil
}

// next is the offset of the first whole record behind a damaged one at at, len(b)
// if there is none. Where the damaged one does not say so, the records from there
// on must go to the end of the block without another damage: what a caller has
// sent is in the block too, and may look like a record, but is never followed by
// nothing else than records.
func (br *blockReader) next(b []byte, at int) int {
	if at+blockHeader <= len(b) {
		length := int(binary.LittleEndian.Uint32(b[at:]) &^ blockHasHdr)
		if length >= blockLeast && length <= blockMost && at+length < len(b) {
			if _, ok := br.record(b, at+length); ok {
				return at + length
			}
		}
	}
	most := br.hashed + resyncBudget*len(b)
	for i := at + 1; i+blockLeast <= len(b) && br.hashed < most; i++ {
		if br.chain(b, i) {
			return i
		}
	}
	return len(b)
}

// resyncBudget is how many times the length of a block may be hashed while looking
// for its next record: a body can be made so that every octet looks like the
// start of one.
const resyncBudget = 16

// chain reports whether the records from at on go to the end of b.
func (br *blockReader) chain(b []byte, at int) bool {
	for at < len(b) {
		r, ok := br.record(b, at)
		if !ok {
			return false
		}
		at += len(r.raw)
	}
	return true
}

// hintOf finds of which message damaged octets say that they were: the first
// octets of one of our headers.
func hintOf(b []byte) (id, route string) {
	for _, name := range []string{headerMessage, headerDead, headerReply} {
		_, rest, found := bytes.Cut(b, []byte(name+": "))
		if !found {
			continue
		}
		rest, _, _ = bytes.Cut(rest[:min(len(rest), 512)], []byte("\r\n"))
		f := append(strings.Fields(string(rest)), "", "", "")
		return hintText(f[1]), hintText(f[2])
	}
	return "", ""
}

// hintText makes a field that may be damaged fit to be shown.
func hintText(s string) string {
	f := fields{rest: cut(s, 80)}
	if text := f.text(); f.err == nil {
		s = text
	}
	return strings.Trim(strconv.QuoteToASCII(cut(s, 80)), `"`)
}

// blockFile is one of a stream's files.
type blockFile struct {
	stream string
	index  uint32
	path   string
	size   int64
}

// blockFiles lists the blocks of a stream in order.
func blockFiles(dir, stream string) (files []blockFile, err error) {
	msgs := filepath.Join(streamDir(dir, stream), "msgs")
	entries, err := os.ReadDir(msgs)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue
		}
		st, err := os.Stat(filepath.Join(msgs, e.Name()))
		if errors.Is(err, os.ErrNotExist) { // removed by the server meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, blockFile{stream, uint32(n), filepath.Join(msgs, e.Name()), st.Size()})
	}
	slices.SortFunc(files, func(a, b blockFile) int { return int(int64(a.index) - int64(b.index)) })
	return files, nil
}

// read returns the file's octets. No stream of ours is compressed or encrypted by
// the server: what is sealed is sealed before it gets there.
func (f *blockFile) read() ([]byte, error) {
	if f.size > blockFileMost {
		return nil, fmt.Errorf("%s has %d octets, more than a block can have", f.path, f.size)
	}
	return os.ReadFile(f.path)
}

// readInto is read into buf, which grows if it must.
func (f *blockFile) readInto(buf *bytes.Buffer) ([]byte, error) {
	if f.size > blockFileMost {
		return nil, fmt.Errorf("%s has %d octets, more than a block can have", f.path, f.size)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buf.Reset()
	buf.Grow(int(f.size) + bytes.MinRead)
	_, err = buf.ReadFrom(file)
	return buf.Bytes(), err
}

// streamDir is where the server keeps a stream of the store in dir.
func streamDir(dir, stream string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", stream)
}
