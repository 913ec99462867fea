package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// mostLeftOut is how many messages that could not be exported are named.
const mostLeftOut = 1000

// Writer writes a bundle. After an error it is of no use.
type Writer struct {
	tar      *tar.Writer
	previous string // digest of the last JSON entry
	end      End
}

// NewWriter begins a bundle. Format and Version of h are filled in.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	b := &Writer{tar: tar.NewWriter(w)}
	h.Format, h.Version = Format, Version
	return b, b.json(headName, &h, h.Created)
}

// Write appends a message. Files and Previous of m are filled in.
func (b *Writer) Write(m *Message) error {
	b.end.Messages++
	if m.Masked {
		b.end.Masked++
	}
	dir := dirName(b.end.Messages)
	m.Files, m.Previous = Files{}, b.previous
	var err error
	if m.Body != nil {
		m.Files.Envelope, err = b.stream(dir+envelopeName, m.Body, m.Accepted)
	} else {
		m.Files.Envelope = fileOf(m.Envelope)
		err = b.file(dir+fileName(envelopeName, m.Envelope), m.Envelope, m.Accepted)
	}
	if err != nil {
		return err
	}
	if m.Reply != nil {
		f := fileOf(m.Reply)
		m.Files.Reply = &f
		if err := b.file(dir+fileName(replyName, m.Reply), m.Reply, m.Accepted); err != nil {
			return err
		}
	}
	return b.json(dir+messageName, m, m.Accepted)
}

// LeaveOut notes that a message was to be in the bundle and is not.
func (b *Writer) LeaveOut(id, reason string) {
	b.end.Missing++
	if len(b.end.LeftOut) < mostLeftOut {
		b.end.LeftOut = append(b.end.LeftOut, LeftOut{id, reason})
	}
}

// Count is how many messages have been written.
func (b *Writer) Count() int { return b.end.Messages }

// Close ends the bundle. Without it a reader takes it for one that was cut off.
func (b *Writer) Close() error {
	b.end.Previous = b.previous
	if err := b.json(endName, &b.end, time.Now()); err != nil {
		return err
	}
	return b.tar.Close()
}

func (b *Writer) json(name string, v any, at time.Time) error {
	doc, err := marshal(v)
	if err != nil {
		return fmt.Errorf("bundle: %s: %w", name, err)
	}
	doc = append(doc, '\n')
	b.previous = digest(doc)
	return b.file(name, doc, at)
}

func (b *Writer) file(name string, content []byte, at time.Time) error {
	if err := b.header(name, int64(len(content)), at); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

// stream writes an entry that is not in memory.
func (b *Writer) stream(name string, src Source, at time.Time) (f File, err error) {
	r, err := src.Open()
	if err != nil {
		return f, err
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, 64<<10)
	start, _ := in.Peek(64) // what it cannot read the copy will tell
	if err := b.header(fileName(name, start), src.Size(), at); err != nil {
		return f, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(b.tar, sum), in)
	if err == nil && n != src.Size() {
		err = io.ErrUnexpectedEOF
	}
	return File{n, hex.EncodeToString(sum.Sum(nil))}, err
}

func (b *Writer) header(name string, size int64, at time.Time) error {
	if s := at.Unix(); s < 0 || s >= 1<<33 {
		at = time.Unix(0, 0) // what ustar can say
	}
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
		ModTime: at.Truncate(time.Second), Format: tar.FormatUSTAR,
	}
	return b.tar.WriteHeader(h)
}

// fileName adds to the name of a file what tells people how to open it.
func fileName(name string, content []byte) string {
	start := bytes.TrimLeft(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(start) > 0 && start[0] == '<' {
		return name + xml
	}
	return name + bin
}

func fileOf(b []byte) File {
	return File{int64(len(b)), digest(b)}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// marshal leaves < and > as they are: people read what it writes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
