package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		width int
		n     int64
		want  string
		err   error
	}{
		{2, 0, "\x00\x00", nil},
		{2, 0x1234, "\x12\x34", nil},
		{2, 65535, "\xff\xff", nil},
		{2, 65536, "", ErrTooLong},
		{2, -1, "", ErrTooLong},
		{4, 0, "\x00\x00\x00\x00", nil},
		{4, 0x12345678, "\x12\x34\x56\x78", nil},
		{4, 1<<32 - 1, "\xff\xff\xff\xff", nil},
		{4, 1 << 32, "", ErrTooLong},
	} {
		got, err := AppendLength([]byte("<"), tt.width, tt.n)
		if string(got) != "<"+tt.want || !errors.Is(err, tt.err) {
			t.Errorf("AppendLength(%d, %d): got %q, %v, want %q, %v", tt.width, tt.n, got, err, "<"+tt.want, tt.err)
		}
	}
	if got, err := Append(nil, 2, []byte("ab")); string(got) != "\x00\x02ab" || err != nil {
		t.Errorf("Append: got %q, %v", got, err)
	}
	if got, err := Append([]byte("x"), 2, make([]byte, 65536)); string(got) != "x" || !errors.Is(err, ErrTooLong) {
		t.Errorf("Append of 65536 octets: got %d octets, %v", len(got), err)
	}
	if !ValidWidth(2) || !ValidWidth(4) || ValidWidth(3) || ValidWidth(0) {
		t.Error("ValidWidth: 2 and 4, nothing else")
	}
}

// readers are the ways in which octets may arrive.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":           func(r io.Reader) io.Reader { return r },
	"octet by octet":  iotest.OneByteReader,
	"halves":          iotest.HalfReader,
	"error with data": iotest.DataErrReader,
}

func TestReader(t *testing.T) {
	payloads := []string{"a", "", "bc", strings.Repeat("d", 5000), "", strings.Repeat("e", 65535)}
	for _, width := range []int{2, 4} {
		var stream []byte
		for _, p := range payloads {
			stream, _ = Append(stream, width, []byte(p))
		}
		for name, cut := range readers {
			r := NewReader(cut(bytes.NewReader(stream)), width, 65535, 64)
			for i, want := range payloads {
				if err := r.Wait(); err != nil {
					t.Fatalf("%s: Wait %d: %v", name, i, err)
				}
				n, err := r.Next()
				if err != nil || n != int64(len(want)) || r.Left() != n {
					t.Fatalf("%s: Next %d: got %d, %v, want %d", name, i, n, err, len(want))
				}
				got, err := io.ReadAll(r)
				if err != nil || string(got) != want || r.Left() != 0 {
					t.Fatalf("%s: payload %d: got %d octets, %v, want %d", name, i, len(got), err, len(want))
				}
			}
			for range 2 {
				if err := r.Wait(); err != io.EOF {
					t.Errorf("%s: Wait at the end: got %v, want EOF", name, err)
				}
				if _, err := r.Next(); err != io.EOF {
					t.Errorf("%s: Next at the end: got %v, want EOF", name, err)
				}
			}
		}
	}
}

// Every cut of a stream ends in io.EOF between frames and in
// io.ErrUnexpectedEOF inside one, and the error stays.
func TestReaderTruncated(t *testing.T) {
	var stream []byte
	borders := map[int]bool{0: true}
	for _, p := range []string{"abc", "", "de"} {
		stream, _ = Append(stream, 4, []byte(p))
		borders[len(stream)] = true
	}
	for cut := range stream {
		for name, how := range readers {
			r := NewReader(how(bytes.NewReader(stream[:cut])), 4, 100, 16)
			var err error
			for err == nil {
				if _, err = r.Next(); err == nil {
					_, err = io.Copy(io.Discard, r)
				}
			}
			want := io.ErrUnexpectedEOF
			if borders[cut] {
				want = io.EOF
			}
			if err != want {
				t.Errorf("%s, cut at %d: got %v, want %v", name, cut, err, want)
			}
			if _, again := r.Next(); again != want {
				t.Errorf("%s, cut at %d: Next again: got %v, want %v", name, cut, again, want)
			}
			if _, again := r.Read(make([]byte, 1)); again != want {
				t.Errorf("%s, cut at %d: Read again: got %v, want %v", name, cut, again, want)
			}
		}
	}
}

// TestTake: a payload that fits the buffer comes in place, and Ready says before
// whether it is here; one that does not is read as ever.
func TestTake(t *testing.T) {
	in, out := io.Pipe()
	r := NewReader(in, 2, 100, 32)
	stream := func(s string) {
		t.Helper()
		go out.Write([]byte(s))
	}
	stream("\x00\x03abc\x00\x02de\x00\x04f")
	if r.Ready() {
		t.Error("Ready before anything was read: got true")
	}
	for _, want := range []string{"abc", "de"} {
		if n, err := r.Next(); n != int64(len(want)) || err != nil {
			t.Fatalf("Next: got %d, %v", n, err)
		}
		if got, err := r.Take(); string(got) != want || err != nil || r.Left() != 0 {
			t.Fatalf("Take: got %q, %v, want %q", got, err, want)
		}
		if got := r.Ready(); got != (want == "abc") {
			t.Errorf("Ready behind %q: got %v", want, got)
		}
	}
	stream("ghi\x00\x28" + strings.Repeat("x", 40) + "\x00\x65")
	if n, err := r.Next(); n != 4 || err != nil {
		t.Fatalf("Next: got %d, %v", n, err)
	}
	if got, err := r.Take(); string(got) != "fghi" || err != nil {
		t.Fatalf("Take of a frame in two pieces: got %q, %v", got, err)
	}
	if n, err := r.Next(); n != 40 || err != nil {
		t.Fatalf("Next: got %d, %v", n, err)
	}
	if got, err := r.Take(); got != nil || err != nil || r.Left() != 40 {
		t.Fatalf("Take of more than fits: got %q, %v, want nil", got, err)
	}
	if got, err := io.ReadAll(r); len(got) != 40 || err != nil {
		t.Fatalf("Read: got %q, %v", got, err)
	}
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("Next: got %v, want %v", err, ErrTooLong)
	}
	if _, err := r.Take(); !r.Ready() || !errors.Is(err, ErrTooLong) {
		t.Errorf("after an error: Ready %v, Take %v", r.Ready(), err)
	}
}

// A payload that is cut ends Take as it ends Read.
func TestTakeTruncated(t *testing.T) {
	r := NewReader(strings.NewReader("\x00\x05ab"), 2, 100, 32)
	if n, err := r.Next(); n != 5 || err != nil {
		t.Fatalf("Next: got %d, %v", n, err)
	}
	if got, err := r.Take(); got != nil || err != io.ErrUnexpectedEOF {
		t.Errorf("Take: got %q, %v, want %v", got, err, io.ErrUnexpectedEOF)
	}
}

func TestReaderLimit(t *testing.T) {
	r := NewReader(strings.NewReader("\x00\x00\x00\x64"+strings.Repeat("x", 100)+"\x00\x00\x00\x65rest"), 4, 100, 16)
	if n, err := r.Next(); n != 100 || err != nil {
		t.Fatalf("Next: got %d, %v", n, err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrUnread) {
		t.Errorf("Next before the end: got %v, want %v", err, ErrUnread)
	}
	if err := r.Wait(); !errors.Is(err, ErrUnread) {
		t.Errorf("Wait before the end: got %v, want %v", err, ErrUnread)
	}
	io.Copy(io.Discard, r)
	if _, err := r.Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("Next over the limit: got %v, want %v", err, ErrTooLong)
	}
	if _, err := r.Read(make([]byte, 4)); !errors.Is(err, ErrTooLong) {
		t.Errorf("Read after that: got %v, want %v", err, ErrTooLong)
	}
}

// Other errors of the stream pass untouched.
func TestReaderError(t *testing.T) {
	bad := errors.New("bad")
	r := NewReader(io.MultiReader(strings.NewReader("\x00\x05ab"), iotest.ErrReader(bad)), 2, 100, 16)
	r.Next()
	if got, err := io.ReadAll(r); string(got) != "ab" || err != bad {
		t.Errorf("got %q, %v, want \"ab\", %v", got, err, bad)
	}
	r = NewReader(io.MultiReader(strings.NewReader("\x00"), iotest.ErrReader(bad)), 2, 100, 16)
	if err := r.Wait(); err != nil {
		t.Errorf("Wait: got %v, want nil: an octet is there", err)
	}
	if _, err := r.Next(); err != bad {
		t.Errorf("Next: got %v, want %v", err, bad)
	}
}

func TestReaderAllocs(t *testing.T) {
	stream, _ := Append(nil, 2, []byte("payload"))
	src := bytes.NewReader(stream)
	r := NewReader(src, 2, 100, 64)
	var buf [16]byte
	if got := testing.AllocsPerRun(100, func() {
		src.Reset(stream)
		r.err = nil
		r.Next()
		r.Read(buf[:])
	}); got != 0 {
		t.Errorf("allocations per frame: got %v, want 0", got)
	}
}

// FuzzReader compares the reader with the plain meaning of the format, for any
// octets and any cuts.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x00\x03abc\x00\x00\x00\x02de"), 2, 3)
	f.Add([]byte("\x00\x00\x00\x03abc\xff\xff\xff\xff"), 4, 1)
	f.Add([]byte("\x00"), 4, 1)
	f.Fuzz(func(t *testing.T, stream []byte, width, piece int) {
		if !ValidWidth(width) || piece < 1 {
			t.Skip()
		}
		const limit = 1000
		var want []string
		wantErr := io.EOF
		for rest := stream; len(rest) > 0; {
			if len(rest) < width {
				wantErr = io.ErrUnexpectedEOF
				break
			}
			n := uint32(binary.BigEndian.Uint16(rest))
			if width == 4 {
				n = binary.BigEndian.Uint32(rest)
			}
			rest = rest[width:]
			if n > limit {
				wantErr = ErrTooLong
				break
			}
			if int(n) > len(rest) {
				wantErr = io.ErrUnexpectedEOF
				break
			}
			want = append(want, string(rest[:n]))
			rest = rest[n:]
		}

		r := NewReader(&pieces{stream, piece}, width, limit, 16)
		var got []string
		var err error
		for {
			if _, err = r.Next(); err != nil {
				break
			}
			var p []byte
			if p, err = io.ReadAll(r); err != nil {
				break
			}
			got = append(got, string(p))
		}
		if !errors.Is(err, wantErr) || strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
			t.Errorf("got %q, %v, want %q, %v", got, err, want, wantErr)
		}
	})
}

// pieces gives at most size octets at a time.
type pieces struct {
	data []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.data)
	p.data = p.data[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	stream, _ := Append(nil, 2, make([]byte, 2048))
	src := bytes.NewReader(stream)
	r := NewReader(src, 2, 65535, 16<<10)
	buf := make([]byte, 2048)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		src.Reset(stream)
		r.err = nil
		r.Next()
		io.ReadFull(r, buf)
	}
}
