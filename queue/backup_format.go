package queue

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// BackupFormat is the version of backup files. A file of a higher one is not read.
//
// A backup is
//
//	"SOAPWAY-BACKUP\r\n" FRAME…
//
// and a frame is KIND (1) LENGTH (4) PAYLOAD CRC (4), numbers big-endian. The
// CRC-32C is that of the CRC of the frame before (0 for the first), KIND, LENGTH
// and PAYLOAD: no frame can be changed, moved, repeated or left out. Kinds are
//
//	H  the head, first: JSON of BackupHead
//	R  a record of the store: lengths (uvarint) and octets of subject, name of the
//	   header and its value, then the data, as package queue draws them, sealed or not
//	F  a file of the store begins: JSON of its path and size; C its next octets
//	D  damage: JSON of a Damage that the backup lacks
//	E  the end, last: JSON of BackupCounts
//	X  the backup was broken off: the reason
//
// Records are those of the streams but for gw.mark and gw.gone, which speak of
// sequence numbers, in this order: accepted messages, dead letters, states and
// what is known of messages that are gone, replies.
const BackupFormat = 1

const (
	backupMagic     = "SOAPWAY-BACKUP\r\n"
	backupFrameMost = 16 << 20
	backupChunk     = 256 << 10
	backupFrameHead = 5
)

const (
	frameHead   = 'H'
	frameRecord = 'R'
	frameFile   = 'F'
	frameChunk  = 'C'
	frameDamage = 'D'
	frameEnd    = 'E'
	frameBroken = 'X'
)

// The reasons for which a backup is refused.
var (
	// ErrBackupCut: the file ends before its end.
	ErrBackupCut = errors.New("the backup ends too early")
	// ErrBackupDamaged: the file is not as it was written.
	ErrBackupDamaged = errors.New("the backup is damaged")
	// ErrNoBackup: the file is none, or one of a newer version.
	ErrNoBackup = errors.New("this is no backup that this program knows")
)

// BackupError says where a backup file is not what it should be.
type BackupError struct {
	Offset int64 // of the frame, from the start of the file
	Err    error // ErrBackupCut, ErrBackupDamaged, ErrNoBackup, with the reason
}

// Error says place and reason.
func (e *BackupError) Error() string {
	return fmt.Sprintf("queue: backup: offset %d: %v", e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *BackupError) Unwrap() error { return e.Err }

// BackupHead says of what a backup is.
type BackupHead struct {
	Format int       `json:"format"`
	Store  string    `json:"store"` // Info.ID
	Epoch  uint64    `json:"epoch"` // Info.Epoch
	Made   time.Time `json:"made"`  // every message that was accepted before is contained, or was finished
	// Messages and Octets are about what is to come, for who shows progress.
	Messages uint64 `json:"messages"`
	Octets   uint64 `json:"octets"`
	// Keys name the keys that the store was sealed with; its records are in the
	// backup as they are, sealed.
	Keys []string `json:"keys,omitempty"`
}

// BackupCounts is what a backup contains.
type BackupCounts struct {
	Messages uint64 `json:"messages"` // that wait
	Dead     uint64 `json:"dead"`
	States   uint64 `json:"states"` // attempts, identities, pauses
	Replies  uint64 `json:"replies"`
	Files    uint64 `json:"files"`
	Octets   uint64 `json:"octets"`  // of all these
	Damaged  uint64 `json:"damaged"` // places of the store that it lacks
}

// backupFile is the payload of an F frame.
type backupFile struct {
	Path string `json:"path"` // below the store's directory, with slashes
	Size int64  `json:"size"`
}

// backupWriter writes frames.
type backupWriter struct {
	w      *bufio.Writer
	crc    uint32
	octets int64 // written
	buf    []byte
	counts BackupCounts
}

func newBackupWriter(w io.Writer) (*backupWriter, error) {
	b := &backupWriter{w: bufio.NewWriterSize(w, backupChunk)}
	n, err := b.w.WriteString(backupMagic)
	b.octets = int64(n)
	return b, err
}

// frame writes one frame; its payload is parts, one behind the other.
func (b *backupWriter) frame(kind byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > backupFrameMost {
		return fmt.Errorf("queue: backup: a frame of %d octets", n)
	}
	head := binary.BigEndian.AppendUint32(append(b.buf[:0], kind), uint32(n))
	b.buf = head
	b.crc = crc32.Update(crc32.Update(0, castagnoli, binary.BigEndian.AppendUint32(nil, b.crc)), castagnoli, head)
	if _, err := b.w.Write(head); err != nil {
		return err
	}
	for _, p := range parts {
		b.crc = crc32.Update(b.crc, castagnoli, p)
		if _, err := b.w.Write(p); err != nil {
			return err
		}
	}
	b.octets += int64(backupFrameHead + n + 4)
	_, err := b.w.Write(binary.BigEndian.AppendUint32(nil, b.crc))
	return err
}

func (b *backupWriter) json(kind byte, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.frame(kind, p)
}

func (b *backupWriter) record(r record) error {
	head := make([]byte, 0, 3*binary.MaxVarintLen32+len(r.subject)+len(r.name)+len(r.header))
	for _, s := range []string{r.subject, r.name, r.header} {
		head = append(binary.AppendUvarint(head, uint64(len(s))), s...)
	}
	b.counts.Octets += uint64(len(head) + len(r.data))
	return b.frame(frameRecord, head, r.data)
}

// file writes a file of the store. One that has another size when it is read is
// an error: none changes once it is complete.
func (b *backupWriter) file(path string, size int64, from io.Reader) error {
	if err := b.json(frameFile, backupFile{path, size}); err != nil {
		return err
	}
	buf := make([]byte, backupChunk)
	var done int64
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			done += int64(n)
			if e := b.frame(frameChunk, buf[:n]); e != nil {
				return e
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if done != size {
		return fmt.Errorf("queue: backup: %s has %d octets, not %d", path, done, size)
	}
	b.counts.Files++
	b.counts.Octets += uint64(size)
	return nil
}

// end writes what ends a backup: its counts, or why it was broken off.
func (b *backupWriter) end(broken error) error {
	var err error
	if broken != nil {
		err = b.frame(frameBroken, []byte(cut(broken.Error(), maxText)))
	} else {
		err = b.json(frameEnd, b.counts)
	}
	if err != nil {
		return err
	}
	return b.w.Flush()
}

// backupReader reads frames, one in memory at a time.
type backupReader struct {
	r      *bufio.Reader
	crc    uint32
	offset int64 // of the next frame
	buf    []byte
}

func newBackupReader(r io.Reader) (*backupReader, error) {
	b := &backupReader{r: bufio.NewReaderSize(r, backupChunk)}
	magic := make([]byte, len(backupMagic))
	n, err := io.ReadFull(b.r, magic)
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	case string(magic[:n]) == backupMagic:
	case err != nil && string(magic[:n]) == backupMagic[:n]:
		return nil, &BackupError{0, fmt.Errorf("%w: after %d octets", ErrBackupCut, n)}
	default:
		return nil, &BackupError{0, fmt.Errorf("%w: it does not begin like one", ErrNoBackup)}
	}
	b.offset = int64(len(backupMagic))
	return b, nil
}

func (b *backupReader) fail(err error, format string, args ...any) error {
	return &BackupError{b.offset, fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...))}
}

// next reads a frame. The payload is valid until the next call. io.EOF follows
// the end only: a caller that has not seen it asks checkedBackup, not this.
func (b *backupReader) next() (kind byte, payload []byte, err error) {
	var head [backupFrameHead]byte
	switch n, err := io.ReadFull(b.r, head[:]); err {
	case nil:
	case io.EOF:
		return 0, nil, io.EOF
	case io.ErrUnexpectedEOF:
		return 0, nil, b.fail(ErrBackupCut, "%d octets of a frame", n)
	default:
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(head[1:]))
	if length > backupFrameMost {
		return 0, nil, b.fail(ErrBackupDamaged, "a frame of %d octets, more than any has", length)
	}
	if err := b.fill(length + 4); err != nil {
		return 0, nil, err
	}
	payload = b.buf[:length]
	crc := crc32.Update(crc32.Update(0, castagnoli, binary.BigEndian.AppendUint32(nil, b.crc)), castagnoli, head[:])
	crc = crc32.Update(crc, castagnoli, payload)
	if got := binary.BigEndian.Uint32(b.buf[length:]); got != crc {
		return 0, nil, b.fail(ErrBackupDamaged, "the checksum of a frame of %d octets differs", length)
	}
	b.crc = crc
	b.offset += int64(backupFrameHead + length + 4)
	return head[0], payload, nil
}

// fill reads n octets into buf, which grows with what really comes: a damaged
// length must not cost memory.
func (b *backupReader) fill(n int) error {
	for have := 0; have < n; {
		step := min(n-have, max(backupChunk, have))
		if cap(b.buf) < have+step {
			b.buf = append(make([]byte, 0, have+step), b.buf[:have]...)
		}
		b.buf = b.buf[:have+step]
		m, err := io.ReadFull(b.r, b.buf[have:])
		have += m
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return b.fail(ErrBackupCut, "%d octets of a frame of %d", have, n)
		}
		if err != nil {
			return err
		}
	}
	b.buf = b.buf[:n]
	return nil
}

// parseRecord reads the payload of an R frame. Its data aliases p.
func parseRecord(p []byte) (r record, err error) {
	var text [3]string
	for i := range text {
		n, size := binary.Uvarint(p)
		if size <= 0 || n > uint64(len(p)-size) {
			return r, errFormat
		}
		text[i] = string(p[size : size+int(n)])
		p = p[size+int(n):]
	}
	return record{text[0], text[1], text[2], p}, nil
}
