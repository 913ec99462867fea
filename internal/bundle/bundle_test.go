package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// samples have every field, octets that are no text, and what is empty.
func samples() []*Message {
	return []*Message{
		{
			ID: "0190e000-0000-7000-8000-000000000001", Route: "orders", Backend: "erp", State: "retrying", OrderKey: "a\xffb", Operation: "placeOrder",
			Accepted: at, Identity: &Identity{Key: []byte("0123456789abcdef"), Sum: []byte("fedcba9876543210"), Until: at.Add(time.Hour)},
			Attempts: []Attempt{{N: 1, At: at, Status: 503, Reason: "busy <\xfe>", Maybe: true, NotBefore: at.Add(time.Minute)}},
			Meta:     json.RawMessage(`{"v":1,"header":[["Content-Type","text/xml"]]}`),
			Envelope: []byte("<a>\r\n&amp; \x01</a>"), Reply: []byte("busy\x00"), ReplyType: "text/plain", Forwards: true, After: "dead",
		},
		{
			ID: "0190e000-0000-7000-8000-000000000002", Route: "orders", State: "dead", Accepted: at,
			MetaOctets: []byte{0, 255}, Dead: &Dead{Died: at.Add(time.Hour), Reason: "permanent", Text: "fault Client", Stops: true},
			Envelope: []byte("--b\r\n\r\n\xff\x00"), Reply: []byte("<fault/>"),
		},
		{ID: "0190e000-0000-7000-8000-000000000003", Route: "orders", State: "pending", Accepted: at, Envelope: []byte{}},
	}
}

func write(t testing.TB, ms []*Message) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Head{Created: at, Gateway: "1.2.3", Store: "store", Route: "orders", Filter: map[string]string{"state": "dead"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if err := w.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	w.LeaveOut("0190-gone", "it is damaged")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(r io.Reader, opt Options) (ms []*Message, b *Reader, err error) {
	if b, err = NewReader(r, opt); err != nil {
		return nil, nil, err
	}
	for {
		m, err := b.Next()
		if err == io.EOF {
			return ms, b, nil
		}
		if err != nil {
			return ms, b, err
		}
		ms = append(ms, m)
	}
}

func TestRoundTrip(t *testing.T) {
	want := samples()
	file := write(t, want)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file))} {
		got, b, err := read(r, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
		if b.Head.Route != "orders" || b.Head.Version != Version || !b.Head.Created.Equal(at) || b.End.Messages != 3 || b.End.Missing != 1 || b.End.LeftOut[0].ID != "0190-gone" {
			t.Errorf("%s: head %+v, end %+v", name, b.Head, b.End)
		}
		if _, err := b.Next(); err != io.EOF {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
	if got, _, err := read(bytes.NewReader(write(t, nil)), Options{}); err != nil || len(got) != 0 {
		t.Errorf("no messages: %v, %v", got, err)
	}
}

// TestGolden: files of this version and the one before stay readable, and have the
// names that doc.go tells. That of this version is written anew with -update.
func TestGolden(t *testing.T) {
	for _, name := range []string{"testdata/v1.tar", "testdata/v2.tar"} {
		testGolden(t, name, name == "testdata/v2.tar")
	}
}

func testGolden(t *testing.T, name string, present bool) {
	want, entries := samples(), "export.json 00000001/envelope.xml 00000001/reply.bin 00000001/message.json 00000002/envelope.bin 00000002/reply.xml 00000002/message.json 00000003/envelope.bin 00000003/message.json end.json"
	if present {
		want = append(want, &Message{
			ID: "0190e000-0000-7000-8000-000000000004", Route: "orders", State: "pending", OrderKey: "***", Accepted: at, Masked: true, Envelope: []byte("<a>***</a>"),
		})
		entries = strings.Replace(entries, "end.json", "00000004/envelope.xml 00000004/message.json end.json", 1)
	}
	if *update && present {
		if err := os.WriteFile(name, write(t, want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, b, err := read(bytes.NewReader(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b.End.Masked != len(want)-len(samples()) {
		t.Errorf("%s: %d messages are masked", name, b.End.Masked)
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Files" || p.String() == "Previous" }, cmp.Ignore())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(file)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != entries {
		t.Errorf("%s: entries: got %s, want %s", name, got, entries)
	}
}

// TestCut: a file that was cut off anywhere is refused; the messages before the cut
// are whole.
func TestCut(t *testing.T) {
	want := samples()
	file := write(t, want)
	end := len(bytes.TrimRight(file, "\x00")) // what follows says no more than that it is one
	for n := 0; n < len(file); n += 7 {
		got, _, err := read(bytes.NewReader(file[:n]), Options{})
		if n >= end {
			if err != nil && !errors.Is(err, ErrTruncated) {
				t.Fatalf("cut at %d of %d: %v", n, len(file), err)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Err != ErrTruncated && e.Err != ErrFormat && !errors.Is(e.Err, ErrTruncated) || e.Offset > int64(n) {
			t.Fatalf("cut at %d of %d: got %v", n, len(file), err)
		}
		if diff := cmp.Diff(want[:len(got)], got, cmp.FilterValues(func(a, b []*Message) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())); diff != "" {
			t.Fatalf("cut at %d: (-want +got):\n%s", n, diff)
		}
	}
}

// TestFlipped: whatever octet is changed, no message comes out changed.
func TestFlipped(t *testing.T) {
	want := samples()
	file := write(t, want)
	refused := 0
	for i := range file {
		if i%2 == 1 && file[i] == 0 {
			continue // padding, half of it will do
		}
		bad := bytes.Clone(file)
		bad[i] ^= []byte{1, 0x80, 0x20}[i%3]
		got, _, err := read(bytes.NewReader(bad), Options{})
		if err != nil {
			refused++
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("octet %d: %v is no Error", i, err)
			}
		} else if len(got) != len(want) {
			t.Fatalf("octet %d: %d messages, want %d", i, len(got), len(want))
		}
		for k, m := range got {
			if !cmp.Equal(m, want[k]) {
				t.Fatalf("octet %d: message %d came out changed", i, k+1)
			}
		}
	}
	if refused < len(file)/4 { // the others are padding
		t.Errorf("%d changed files of %d octets were refused", refused, len(file))
	}
}

// entry is one of a file that is made by hand.
type entry struct {
	name    string
	content string
	header  func(*tar.Header)
}

func pack(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)), Mode: 0o600}
		if e.header != nil {
			e.header(h)
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostile: what no Writer has written is refused, at the right place and for
// the right reason.
func TestHostile(t *testing.T) {
	head := entry{name: "export.json", content: `{"format":"soapway-export","version":1,"route":"orders"}`}
	envelope := entry{name: "00000001/envelope.xml", content: "<a/>"}
	message := func(doc string) entry { return entry{name: "00000001/message.json", content: doc} }
	first := digest([]byte(head.content))
	good := message(`{"previous":"` + first + `","id":"1","route":"orders","state":"pending","accepted":"2026-01-02T03:04:05Z","files":{"envelope":{"size":4,"sha256":"` + fileOf([]byte("<a/>")).SHA256 + `"}}}`)
	link := func(kind byte) func(*tar.Header) {
		return func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = kind, "/etc/passwd", 0 }
	}
	tests := []struct {
		name    string
		entries []entry
		entry   string
		want    error
	}{
		{"nothing", nil, "export.json", ErrFormat},
		{"another archive", []entry{{name: "a.txt", content: "x"}}, `"a.txt"`, ErrFormat},
		{"another format", []entry{{name: "export.json", content: `{"format":"x","version":1}`}}, "export.json", ErrFormat},
		{"no version", []entry{{name: "export.json", content: `{"format":"soapway-export"}`}}, "export.json", ErrFormat},
		{"later version", []entry{{name: "export.json", content: `{"format":"soapway-export","version":3}`}}, "export.json", ErrVersion},
		{"head of no JSON", []entry{{name: "export.json", content: `{`}}, "export.json", ErrContent},
		{"no end", []entry{head}, "00000001/envelope.xml", ErrTruncated},
		{"message without its end", []entry{head, envelope}, "00000001/message.json", ErrTruncated},
		{"path upwards", []entry{head, {name: "../../etc/cron.d/x", content: "<a/>"}}, `"../../etc/cron.d/x"`, ErrEntry},
		{"absolute path", []entry{head, {name: "/etc/passwd", content: "<a/>"}}, `"/etc/passwd"`, ErrEntry},
		{"backslashes", []entry{head, {name: `00000001\envelope.xml`, content: "<a/>"}}, `"00000001\\envelope.xml"`, ErrEntry},
		{"long name", []entry{head, {name: strings.Repeat("x", 5000), content: "<a/>"}}, `"` + strings.Repeat("x", 60) + `"`, ErrEntry},
		{"symbolic link", []entry{head, {name: envelope.name, header: link(tar.TypeSymlink)}}, `"00000001/envelope.xml"`, ErrEntry},
		{"hard link", []entry{head, {name: envelope.name, header: link(tar.TypeLink)}}, `"00000001/envelope.xml"`, ErrEntry},
		{"device", []entry{head, {name: envelope.name, header: func(h *tar.Header) { h.Typeflag, h.Size = tar.TypeChar, 0 }}}, `"00000001/envelope.xml"`, ErrEntry},
		{"directory", []entry{head, {name: "00000001/", header: func(h *tar.Header) { h.Typeflag = tar.TypeDir }}}, `"00000001/"`, ErrEntry},
		{"extended header", []entry{head, {name: envelope.name, content: "<a/>", header: func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "y"} }}}, `"00000001/envelope.xml"`, ErrEntry},
		{"skipped number", []entry{head, {name: "00000002/envelope.xml", content: "<a/>"}}, `"00000002/envelope.xml"`, ErrEntry},
		{"message twice", []entry{head, envelope, good, envelope, good}, `"00000001/envelope.xml"`, ErrEntry},
		{"large envelope", []entry{head, {name: envelope.name, content: strings.Repeat("x", 101)}}, envelope.name, ErrTooLarge},
		{"large reply", []entry{head, envelope, {name: "00000001/reply.bin", content: strings.Repeat("x", 51)}}, "00000001/reply.bin", ErrTooLarge},
		{"large message", []entry{head, envelope, message(strings.Repeat(" ", maxJSON+1))}, "00000001/message.json", ErrTooLarge},
		{"message of no JSON", []entry{head, envelope, message(`{"id":`)}, "00000001/message.json", ErrContent},
		{"message of another shape", []entry{head, envelope, message(`{"id":1}`)}, "00000001/message.json", ErrContent},
		{"deep message", []entry{head, envelope, message(strings.Repeat("[", 100000))}, "00000001/message.json", ErrContent},
		{"no digest", []entry{head, envelope, message(`{"previous":"` + first + `"}`)}, "00000001/envelope", ErrDamaged},
		{"changed head", []entry{{name: "export.json", content: head.content + " "}, envelope, good}, "before 00000001/message.json", ErrDamaged},
		{"other envelope", []entry{head, {name: envelope.name, content: "<b/>"}, good}, "00000001/envelope", ErrDamaged},
		{"reply that is not mentioned", []entry{head, envelope, {name: "00000001/reply.xml", content: "<r/>"}, good}, "00000001/reply", ErrDamaged},
		{"too few", []entry{head, envelope, good, {name: "end.json", content: `{"messages":2}`}}, "end.json", ErrCount},
		{"too many", []entry{head, envelope, good, {name: "end.json", content: `{"messages":0}`}}, "end.json", ErrCount},
		{"no sum", []entry{head, envelope, good, {name: "end.json", content: `{"messages":1}`}}, "before end.json", ErrDamaged},
		{"wrong sum", []entry{head, envelope, good, {name: "end.json", content: `{"messages":1,"previous":"` + first + `"}`}}, "before end.json", ErrDamaged},
	}
	for _, tt := range tests {
		_, _, err := read(bytes.NewReader(pack(t, tt.entries)), Options{MaxEnvelope: 100, MaxReply: 50})
		if e, ok := errors.AsType[*Error](err); !ok || e.Entry != tt.entry || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %s: %v", tt.name, err, tt.entry, tt.want)
		}
	}
}

// TestBehindTheEnd: padding may follow, another archive or anything else may not.
func TestBehindTheEnd(t *testing.T) {
	file := write(t, samples())
	for name, tt := range map[string]struct {
		more []byte
		want error
	}{
		"padding": {make([]byte, 10240), nil}, "much padding": {make([]byte, 2*maxPadding), ErrTrailing},
		"another": {file, ErrTrailing}, "a word": {[]byte("x"), ErrTrailing},
	} {
		if _, _, err := read(bytes.NewReader(append(bytes.Clone(file), tt.more...)), Options{}); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// TestReadError: what reading meets is told as it is.
func TestReadError(t *testing.T) {
	on := errors.New("disk on fire")
	file := write(t, samples())
	for _, n := range []int{0, 700, 5000} {
		if _, _, err := read(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(on)), Options{}); !errors.Is(err, on) {
			t.Errorf("after %d: got %v", n, err)
		}
	}
}

// TestNoMemoryForWhatIsNotThere: an entry that says it is huge, and then ends.
func TestNoMemoryForWhatIsNotThere(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: headName, Size: maxJSON}); err != nil {
		t.Fatal(err)
	}
	allocated := testing.Benchmark(func(tb *testing.B) {
		for tb.Loop() {
			if _, err := NewReader(bytes.NewReader(b.Bytes()), Options{}); !errors.Is(err, ErrTruncated) {
				tb.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 256<<10 {
		t.Errorf("%d octets allocated for an entry that is not there", allocated)
	}
}

// large is an envelope that is in no memory.
type large struct{ octets []byte }

func (l large) Size() int64                  { return int64(len(l.octets)) }
func (l large) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l.octets)), nil }

// spool counts what is open.
type spool struct {
	bytes.Buffer
	open *int
	full bool
}

func (s *spool) Write(b []byte) (int, error) {
	if s.full {
		return 0, errFull
	}
	return s.Buffer.Write(b)
}

func (s *spool) Close() error { *s.open--; return nil }

var errFull = errors.New("no room")

// TestLarge: large envelopes pass by the memory both ways, and whatever goes wrong
// nothing of them stays.
func TestLarge(t *testing.T) {
	body := []byte("<a>" + strings.Repeat("x", 2<<20) + "</a>")
	ms := []*Message{
		{ID: "1", Route: "orders", State: "pending", Accepted: at, Body: large{body}},
		{ID: "2", Route: "orders", State: "pending", Accepted: at, Envelope: []byte("<small/>")},
		{ID: "3", Route: "orders", State: "pending", Accepted: at, Body: large{body[:100]}},
		{ID: "4", Route: "orders", State: "pending", Accepted: at, Body: large{body}},
	}
	file := write(t, ms)
	open := 0
	opt := Options{Spool: func(int64) (Spool, error) { open++; return &spool{open: &open}, nil }}
	got, b, err := read(bytes.NewReader(file), opt)
	if err != nil || len(got) != 4 || open != 2 {
		t.Fatalf("%d messages, %d spooled, %v", len(got), open, err)
	}
	b.Close()
	for i, m := range got {
		envelope := m.Envelope
		if s, ok := m.Spooled.(*spool); ok {
			envelope = s.Bytes()
			_ = s.Close()
		}
		want := ms[i].Envelope
		if l, ok := ms[i].Body.(large); ok {
			want = l.octets
		}
		if !bytes.Equal(envelope, want) || (m.Spooled != nil) != (len(want) > inlineMost) {
			t.Errorf("message %d: %d octets, want %d, spooled %t", i+1, len(envelope), len(want), m.Spooled != nil)
		}
	}
	if got, _, err := read(bytes.NewReader(file), Options{}); err != nil || len(got) != 4 || !bytes.Equal(got[3].Envelope, body) {
		t.Errorf("without a spool: %d messages, %v", len(got), err)
	}
	flipped := bytes.Clone(file)
	flipped[len(file)-1<<20] ^= 1
	for name, tt := range map[string]struct {
		file []byte
		opt  Options
		want error
	}{
		"cut":      {file[:1<<20], opt, ErrTruncated},
		"cut late": {file[:len(file)-1<<20], opt, ErrTruncated},
		"flipped":  {flipped, opt, ErrDamaged},
		"full":     {file, Options{Spool: func(int64) (Spool, error) { open++; return &spool{open: &open, full: true}, nil }}, errFull},
		"no spool": {file, Options{Spool: func(int64) (Spool, error) { return nil, errFull }}, errFull},
		"limit":    {file, Options{MaxEnvelope: 2 << 20, Spool: opt.Spool}, ErrTooLarge},
	} {
		open = 0
		got, b, err := read(bytes.NewReader(tt.file), tt.opt)
		if b != nil {
			b.Close()
		}
		for _, m := range got {
			m.drop()
		}
		if _, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, tt.want) || open != 0 {
			t.Errorf("%s: got %v, want %v; %d stay open", name, err, tt.want, open)
		}
	}
	// A source that is not what it says ends the file.
	for name, l := range map[string]Source{"short": lying{large{body}, 1}, "long": lying{large{body}, -1}} {
		w, err := NewWriter(io.Discard, Head{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&Message{Body: l}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type lying struct {
	large
	by int64
}

func (l lying) Size() int64 { return l.large.Size() + l.by }

func FuzzReader(f *testing.F) {
	f.Add(write(f, samples()))
	f.Add(write(f, nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, _, err := read(bytes.NewReader(file), Options{MaxEnvelope: 1 << 20, MaxReply: 1 << 20})
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%v is no Error", err)
			}
			return
		}
		again, _, err := read(bytes.NewReader(write(t, got)), Options{})
		if err != nil || fmt.Sprint(len(again)) != fmt.Sprint(len(got)) {
			t.Fatalf("written again: %v", err)
		}
		for i := range got {
			if !bytes.Equal(again[i].Envelope, got[i].Envelope) || again[i].ID != got[i].ID || again[i].OrderKey != got[i].OrderKey {
				t.Fatalf("message %d: %+v, again %+v", i, got[i], again[i])
			}
		}
	})
}
