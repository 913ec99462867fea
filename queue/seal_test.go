package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Keys for tests, as lines of a key file.
var (
	testKeyA = strings.Repeat("a1b2", 16)
	testKeyB = strings.Repeat("0f9e", 16)
	testKeyC = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
)

func testKeys(t testing.TB, lines ...string) *Keys {
	t.Helper()
	k, err := ParseKeys(strings.Join(lines, "\n") + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sealed(t testing.TB, k *Keys, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := k.Seal(&b, name)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unseal reads all that can be read, and how it ended.
func unseal(k *Keys, name string, r io.Reader) ([]byte, error) {
	u, err := k.Unseal(r, name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(u)
}

func testContent(n int) []byte {
	b := make([]byte, n)
	chacha := rand.NewChaCha8([32]byte{byte(n)})
	if _, err := chacha.Read(b); err != nil {
		panic(err)
	}
	return b
}

// TestSealSizes: what is sealed comes back, however it is cut into calls, and
// takes as many octets as SealedSize says.
func TestSealSizes(t *testing.T) {
	keys := testKeys(t, testKeyA)
	for _, n := range []int{0, 1, 15, 16, 17, sealChunk - 1, sealChunk, sealChunk + 1, 2*sealChunk - 1, 2 * sealChunk, 2*sealChunk + 1, 5*sealChunk + 77} {
		want := testContent(n)
		b := sealed(t, keys, "x", want)
		if got := SealedSize(int64(n)); got != int64(len(b)) {
			t.Errorf("SealedSize(%d): got %d, want %d", n, got, len(b))
		}
		if bytes.Contains(b, []byte(testKeyA)) || n >= 16 && bytes.Contains(b, want[:16]) {
			t.Errorf("%d octets: the sealed file shows what it holds", n)
		}
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(b), "halves": iotest.HalfReader(bytes.NewReader(b)), "data with error": iotest.DataErrReader(bytes.NewReader(b)),
		} {
			if got, err := unseal(keys, "x", r); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d octets, %s: got %d octets, %v", n, name, len(got), err)
			}
		}
	}
	for _, step := range []int{1, 1000, sealChunk, sealChunk + 1} { // written and read in pieces
		want := testContent(2*sealChunk + 500)
		var b bytes.Buffer
		w, err := keys.Seal(&b, "x")
		if err != nil {
			t.Fatal(err)
		}
		for piece := range slices.Chunk(want, step) {
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("Write(%d octets): got %d, %v", len(piece), n, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("more")); err == nil {
			t.Error("Write after Close: got nil, want an error")
		}
		if got, err := unseal(keys, "x", iotest.OneByteReader(&b)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("in steps of %d: got %d octets, %v", step, len(got), err)
		}
	}
}

// TestSealDamage: whatever is changed, cut off, moved or put in another's place
// is an error, and nothing is ever read that was not written.
func TestSealDamage(t *testing.T) {
	keys := testKeys(t, testKeyA)
	const full = sealChunk + sealTag
	want := testContent(3*sealChunk + 100)
	good := sealed(t, keys, "x", want)
	other := sealed(t, keys, "x", want)
	chunk := func(b []byte, i int) []byte {
		return b[sealHeader+i*full : min(len(b), sealHeader+(i+1)*full)]
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	head := good[:sealHeader]
	cases := map[string][]byte{
		"empty":                     {},
		"head only":                 head,
		"last chunk missing":        good[:sealHeader+3*full],
		"two chunks missing":        good[:sealHeader+2*full],
		"one octet missing":         good[:len(good)-1],
		"one octet more":            join(good, []byte{0}),
		"first chunk missing":       join(head, chunk(good, 1), chunk(good, 2), chunk(good, 3)),
		"second chunk missing":      join(head, chunk(good, 0), chunk(good, 2), chunk(good, 3)),
		"two chunks swapped":        join(head, chunk(good, 1), chunk(good, 0), chunk(good, 2), chunk(good, 3)),
		"last chunk early":          join(head, chunk(good, 0), chunk(good, 3)),
		"chunk twice":               join(head, chunk(good, 0), chunk(good, 0), chunk(good, 1), chunk(good, 2), chunk(good, 3)),
		"file twice":                join(good, good),
		"last chunk twice":          join(good, chunk(good, 3)),
		"chunk of another file":     join(head, chunk(other, 0), chunk(good, 1), chunk(good, 2), chunk(good, 3)),
		"head of another file":      join(other[:sealHeader], good[sealHeader:]),
		"content of an empty chunk": join(head, make([]byte, sealTag)),
	}
	for i := 0; i < len(good); i += 1 + i/40 { // every octet of the head, then fewer
		b := slices.Clone(good)
		b[i] ^= 1 << (i % 8)
		cases[fmt.Sprintf("bit flipped in octet %d", i)] = b
	}
	for n := 0; n < len(good); n += 1 + n/20 {
		cases[fmt.Sprintf("cut off after %d", n)] = good[:n]
	}
	for name, b := range cases {
		got, err := unseal(keys, "x", bytes.NewReader(b))
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrKey) {
			t.Errorf("%s: got error %v, want ErrCorrupt", name, err)
		}
		if !bytes.HasPrefix(want, got) {
			t.Errorf("%s: %d octets were read that nobody wrote", name, len(got))
		}
	}
	if _, err := unseal(keys, "y", bytes.NewReader(good)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another file's name: got %v, want ErrCorrupt", err)
	}
	broken := errors.New("disk is broken")
	r := io.MultiReader(bytes.NewReader(good[:sealHeader+full+9]), iotest.ErrReader(broken))
	if got, err := unseal(keys, "x", r); err != broken || len(got) > sealChunk { //nolint:errorlint // it must be passed as it is
		t.Errorf("a reader's error: got %d octets, %v; want that error untouched", len(got), err)
	}
}

// TestSealRotation: the first key seals, all of them open.
func TestSealRotation(t *testing.T) {
	want := testContent(1000)
	old := sealed(t, testKeys(t, testKeyA), "x", want)
	both := testKeys(t, "# since May", testKeyB, "", "  "+testKeyA)
	if got, err := unseal(both, "x", bytes.NewReader(old)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("an older key: got %d octets, %v", len(got), err)
	}
	fresh := sealed(t, both, "x", want)
	if got, err := unseal(testKeys(t, testKeyB), "x", bytes.NewReader(fresh)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the new key alone: got %d octets, %v", len(got), err)
	}
	if _, err := unseal(testKeys(t, testKeyA), "x", bytes.NewReader(fresh)); !errors.Is(err, ErrKey) {
		t.Errorf("the old key for what is new: got %v, want ErrKey", err)
	}
	if _, err := unseal(both, "x", bytes.NewReader(want)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("plain octets where sealed ones belong: got %v, want ErrCorrupt", err)
	}
}

// TestSealPlain: without keys nothing is changed.
func TestSealPlain(t *testing.T) {
	var none *Keys
	want := testContent(1000)
	b := sealed(t, none, "x", want)
	if !bytes.Equal(b, want) {
		t.Error("no keys: the octets were changed")
	}
	if got, err := unseal(none, "x", bytes.NewReader(b)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("no keys: got %d octets, %v", len(got), err)
	}
	if id := none.ID(); id != "" {
		t.Errorf("ID of no keys: got %q, want none", id)
	}
}

// failing is a writer with room for n octets.
type failing struct{ n int }

var errNoRoom = errors.New("no room")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return 0, errNoRoom
	}
	f.n -= len(p)
	return len(p), nil
}

// TestSealWriteError: an error of the writer stays, and Close tells it.
func TestSealWriteError(t *testing.T) {
	keys := testKeys(t, testKeyA)
	if _, err := keys.Seal(&failing{n: 10}, "x"); err != errNoRoom { //nolint:errorlint // as it is
		t.Errorf("Seal: got %v, want %v", err, errNoRoom)
	}
	w, err := keys.Seal(&failing{n: 100}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 3*sealChunk)); err != errNoRoom { //nolint:errorlint // as it is
		t.Errorf("Write: got %v, want %v", err, errNoRoom)
	}
	if err := w.Close(); err != errNoRoom { //nolint:errorlint // as it is
		t.Errorf("Close: got %v, want %v", err, errNoRoom)
	}
}

func TestParseKeys(t *testing.T) {
	for _, c := range []struct {
		name, text, want string // want is part of the error, or none
		keys             int
	}{
		{"hexadecimal", testKeyA, "", 1},
		{"upper case, blanks, CRLF", " " + strings.ToUpper(testKeyA) + " \r\n", "", 1},
		{"base64", testKeyC + "\n", "", 1},
		{"base64 without padding, for URLs", strings.TrimRight(testKeyC, "="), "", 1},
		{"byte order mark", "\ufeff" + testKeyA, "", 1},
		{"three, with comments", "# new\n" + testKeyA + "\n\n# old\n" + testKeyB + "\n" + testKeyC, "", 3},
		{"nothing", "", "there is no key", 0},
		{"comments only", "# none\n\n", "there is no key", 0},
		{"too short", testKeyA[2:], "line 1: a key is 32 octets", 0},
		{"too long", testKeyA + "00", "line 1: a key is 32 octets", 0},
		{"words", "correct horse battery staple correct horse battery staple", "line 1: a key is 32 octets", 0},
		{"second line", testKeyA + "\nnonsense", "line 2: a key is 32 octets", 0},
		{"twice", testKeyA + "\n" + testKeyA, "line 2: this key stands there twice", 0},
		{"twice in another form", strings.Repeat("00000001", 8) + "\n" + "AAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAE=", "line 2: this key stands there twice", 0},
		{"all zero", strings.Repeat("00", 32), "not a random one", 0},
	} {
		k, err := ParseKeys(c.text)
		switch {
		case c.want == "" && (err != nil || len(k.keys) != c.keys):
			t.Errorf("%s: got %v, want %d keys", c.name, err, c.keys)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		case err != nil && len(c.text) > 40 && strings.Contains(err.Error(), c.text[:10]):
			t.Errorf("%s: the error shows the key: %v", c.name, err)
		}
	}
	var many strings.Builder
	for i := range maxKeys + 1 {
		fmt.Fprintf(&many, "%s%04x\n", testKeyA[4:], i)
	}
	if _, err := ParseKeys(many.String()); err == nil {
		t.Errorf("%d keys: got nil, want an error", maxKeys+1)
	}
}

// TestKeysHidden: keys do not show in what is printed.
func TestKeysHidden(t *testing.T) {
	keys := testKeys(t, testKeyA)
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(form, keys); got != "[redacted]" {
			t.Errorf("%s: got %s", form, got)
		}
	}
	if id := keys.ID(); len(id) != 16 || strings.Contains(testKeyA, id) {
		t.Errorf("ID: got %q, want 16 digits that are none of the key", id)
	}
}

// FuzzUnseal changes a sealed file; what can be read is never anything but
// what was written, and the end of a changed file is never reported as good.
func FuzzUnseal(f *testing.F) {
	keys := testKeys(f, testKeyA)
	small, large := testContent(40), testContent(2*sealChunk+9)
	files := [][]byte{sealed(f, keys, "x", small), sealed(f, keys, "x", large)}
	contents := [][]byte{small, large}
	f.Add(false, uint32(0), uint32(0), []byte{1})
	f.Add(true, uint32(sealHeader+sealChunk), uint32(30), []byte("inserted"))
	f.Add(true, uint32(sealHeader), uint32(sealChunk+sealTag), []byte{})
	f.Fuzz(func(t *testing.T, big bool, at, cut uint32, put []byte) {
		which := 0
		if big {
			which = 1
		}
		good := files[which]
		from := int(at) % (len(good) + 1)
		to := from + int(cut)%(len(good)-from+1)
		b := slices.Concat(good[:from], put, good[to:])
		got, err := unseal(keys, "x", bytes.NewReader(b))
		if !bytes.HasPrefix(contents[which], got) {
			t.Fatalf("%d octets were read that nobody wrote", len(got))
		}
		if same := bytes.Equal(b, good); (err == nil) != same {
			t.Fatalf("unchanged %v: got %v", same, err)
		}
	})
}

// BenchmarkSeal beside a plain copy: go test ./queue -run '^$' -bench Seal
func BenchmarkSeal(b *testing.B) {
	keys := testKeys(b, testKeyA)
	content := testContent(1 << 20)
	file := sealed(b, keys, "x", content)
	b.Run("seal", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		for b.Loop() {
			w, err := keys.Seal(io.Discard, "x")
			if err == nil {
				_, err = w.Write(content)
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unseal", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		for b.Loop() {
			r, err := keys.Unseal(bytes.NewReader(file), "x")
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
