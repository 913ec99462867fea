package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// TestXAES: the vectors of C2SP's XAES-256-GCM.
func TestXAES(t *testing.T) {
	for _, c := range []struct {
		key             byte
		aad, plain, hex string
	}{
		{0x01, "", "XAES-256-GCM", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{0x03, "c2sp.org/XAES-256-GCM", "XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k, err := newRecordKey(bytes.Repeat([]byte{c.key}, KeySize))
		if err != nil {
			t.Fatal(err)
		}
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		aead, err := k.aead(nonce)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(aead.Seal(nil, nonce[12:], []byte(c.plain), []byte(c.aad))); got != c.hex {
			t.Errorf("key %02x…: got %s, want %s", c.key, got, c.hex)
		}
	}
}

// natsMessage is a record as a scan or a read gets it.
func natsMessage(r record) *nats.Msg {
	return &nats.Msg{Subject: r.subject, Header: nats.Header{r.name: {r.header}}, Data: slices.Clone(r.data)}
}

// TestSealRecord: a record comes back, by its header alone as well, and not
// when anything of it was changed or put under another subject.
func TestSealRecord(t *testing.T) {
	keys := testKeys(t, testKeyA)
	want := record{"gw.dead.x", headerDead, "1 a b % c", []byte("body of the message")}
	r, err := keys.sealRecord(want)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.name) + len(r.header) + len(r.data) - len(want.name) - len(want.header) - len(want.data); got > keys.sealedSize(&want) {
		t.Errorf("a sealed record is %d octets longer, sealedSize says at most %d", got, keys.sealedSize(&want))
	}
	m := natsMessage(r)
	if sealed, err := keys.openRecord(r.subject, m, true); err != nil || sealed != keys.ID() || m.Header.Get(headerDead) != want.header || !bytes.Equal(m.Data, want.data) || m.Header.Get(headerSealed) != "" {
		t.Errorf("got %q, %v, %v %q; want the record that was sealed", sealed, err, m.Header, m.Data)
	}
	m = natsMessage(r)
	m.Data = nil
	if _, err := keys.openRecord(r.subject, m, false); err != nil || m.Header.Get(headerDead) != want.header {
		t.Errorf("header alone: got %v, %v", m.Header, err)
	}
	if _, err := keys.openRecord("gw.dead.y", natsMessage(r), true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("under another subject: got %v, want ErrCorrupt", err)
	}
	if _, err := testKeys(t, testKeyB).openRecord(r.subject, natsMessage(r), true); !errors.Is(err, ErrKey) || errors.Is(err, ErrCorrupt) {
		t.Errorf("another key: got %v, want ErrKey", err)
	}
	var none *Keys
	if _, err := none.openRecord(r.subject, natsMessage(r), true); !errors.Is(err, ErrKey) {
		t.Errorf("no key: got %v, want ErrKey", err)
	}
	for i := range r.header {
		c := r
		b := []byte(r.header)
		b[i] ^= 1
		c.header = string(b)
		if _, err := keys.openRecord(c.subject, natsMessage(c), true); err == nil {
			t.Errorf("octet %d of the header changed: got nil, want an error", i)
		}
	}
	for i := range r.data {
		m := natsMessage(r)
		m.Data[i] ^= 0x80
		if _, err := keys.openRecord(r.subject, m, true); !errors.Is(err, ErrCorrupt) || bytes.Contains(m.Data, []byte("body")) {
			t.Errorf("octet %d of the data changed: got %v, want ErrCorrupt", i, err)
		}
	}
	other, err := keys.sealRecord(record{want.subject, want.name, want.header, []byte("other")})
	if err != nil {
		t.Fatal(err)
	}
	m = natsMessage(r)
	m.Data = other.data
	if _, err := keys.openRecord(r.subject, m, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("data of another record: got %v, want ErrCorrupt", err)
	}
	if again, _ := keys.sealRecord(want); again.header == r.header || bytes.Equal(again.data, r.data) {
		t.Error("the same record twice looks the same")
	}
}

// FuzzOpenRecord: what was not sealed with the key is refused.
func FuzzOpenRecord(f *testing.F) {
	keys := testKeys(f, testKeyA)
	good, err := keys.sealRecord(record{"gw.st.x", headerValue, "1 key ffff", []byte("value")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.header, good.data)
	f.Add("1 "+keys.ID()+" AAAA", []byte("x"))
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		m := &nats.Msg{Header: nats.Header{headerSealed: {header}}, Data: slices.Clone(data)}
		_, err := keys.openRecord(good.subject, m, true)
		if err == nil && header != "" && (m.Header.Get(headerValue) != "1 key ffff" || string(m.Data) != "value") {
			t.Errorf("%q, %q: got %v %q, which nobody sealed", header, data, m.Header, m.Data)
		}
	})
}

func sealedOptions(t *testing.T, dir string, lines ...string) StoreOptions {
	o := testOptions(t, dir)
	o.Observer = noGaps{t: t}
	if len(lines) > 0 {
		o.Keys = testKeys(t, lines...)
	}
	return o
}

// TestSealedContract: a sealed store keeps every promise of a plain one, also
// when its key changes at each start.
func TestSealedContract(t *testing.T) {
	var mu sync.Mutex
	turn := 0
	testContract(t, optionsMaker(func(t *testing.T, dir string) StoreOptions {
		mu.Lock()
		defer mu.Unlock()
		lines := [][]string{{testKeyA, testKeyB}, {testKeyB, testKeyA}, {noKey, testKeyB, testKeyA}}[turn%3]
		turn++
		return sealedOptions(t, dir, lines...)
	}))
}

// secrets fills a store with every kind of record and returns what none of its
// files may show.
func secrets(t *testing.T, s *Embedded) []string {
	t.Helper()
	m := &Message{
		ID: "0192-first", Route: "route-of-secrets", Destination: "destination-of-secrets", Lane: "order-key-4711", Operation: "{urn:secret}Operation",
		Accepted: time.Now(), Meta: []byte("X-Secret-Header: header-of-secrets"), Body: []byte("<secret>body-of-secrets</secret>"),
		Identity: Identity{Key: [16]byte([]byte("key-of-secrets..")), Sum: [16]byte([]byte("sum-of-secrets..")), Until: time.Now().Add(time.Hour)},
	}
	second := *m
	second.ID = "0192-second"
	put(t, s, m)
	seq := put(t, s, &second)
	large := noise(inlineMost + 1<<20)
	for at := 0; at < len(large); at += 5000 {
		copy(large[at:], "large-body-of-secrets")
	}
	putBlob(t, s, "0192-large", large)
	dead := second
	ctx := t.Context()
	steps := []error{
		s.Bury(ctx, &DeadLetter{Message: &dead, Died: time.Now(), Reason: "refused", Text: "text-of-secrets", Reply: []byte("reply-of-the-dead"), ReplyType: "text/secret", Attempts: []AttemptRecord{{At: time.Now(), Reason: "attempt-of-secrets"}}}),
		s.SaveAttempts(m.ID, []AttemptRecord{{At: time.Now(), Reason: "attempt-of-secrets at node-of-secrets"}}),
		s.SaveState(ctx, "paused/route-of-secrets", []byte("state-of-secrets")),
		s.KeepReply(ctx, &Reply{ID: m.ID, Route: m.Route, Until: time.Now().Add(time.Hour), Meta: []byte("meta-of-a-reply"), Body: []byte("body-of-a-reply")}),
		s.KeepKnown(ctx, Known{ID: "01920000-0000-7000-8000-000000000001", Route: m.Route, Identity: second.Identity}),
		s.Remove(seq),
		s.Sync(ctx),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	return []string{
		"of-secrets", "secret", "order-key", "4711", "Operation", "text-of", "reply-of", "attempt-of", "node-of", "paused", "state-of", "of-a-reply", "refused",
		m.Identity.option(), testKeyA, testKeyB,
	}
}

// shown tells which of these texts a file below dir has, or a name of one.
func shown(t *testing.T, dir string, texts []string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		b := []byte(path[len(dir):])
		if !d.IsDir() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b = append(b, content...)
		}
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				found = append(found, fmt.Sprintf("%q in %s", text, path[len(dir):]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSealedShowsNothing: no file of a sealed store, open or closed, shows
// anything of what it keeps; those of a plain one do, or the search is blind.
func TestSealedShowsNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir, testKeyA))
	texts := secrets(t, s)
	if found := shown(t, dir, texts); len(found) > 0 {
		t.Errorf("open: %s", strings.Join(found, "; "))
	}
	closeStore(t, s)
	if found := shown(t, dir, texts); len(found) > 0 {
		t.Errorf("closed: %s", strings.Join(found, "; "))
	}
	plain := t.TempDir()
	s = openStore(t, sealedOptions(t, plain))
	secrets(t, s)
	closeStore(t, s)
	if found := shown(t, plain, texts); len(found) < 10 {
		t.Errorf("plain: only %s", strings.Join(found, "; "))
	}
}

// everything is all that can be read from a store.
func everything(t *testing.T, s *Embedded) (all []string) {
	t.Helper()
	ctx := t.Context()
	err := s.Scan(ctx, func(seq uint64, _ *Message, _ int64) error {
		m, err := s.Get(seq)
		if err != nil {
			return err
		}
		body := m.Body
		if m.Blob != nil {
			if body, err = readBlob(m.Blob); err != nil {
				return err
			}
		}
		all = append(all, fmt.Sprintf("%d %s %s %s %s %x", seq, m.ID, m.Destination, m.Lane, m.Meta, sha256.Sum256(body)))
		return nil
	})
	if err == nil {
		err = s.ScanDead(ctx, func(d *DeadLetter, _ int64) error {
			d, err := s.Dead(d.ID)
			if err == nil {
				all = append(all, fmt.Sprintf("dead %s %s %s %d", d.ID, d.Body, d.Reply, len(d.Attempts)))
			}
			return err
		})
	}
	if err == nil {
		err = s.ScanAttempts(ctx, func(id string, a []AttemptRecord) error {
			all = append(all, fmt.Sprintf("attempts %s %d %s", id, len(a), a[0].Reason))
			return nil
		})
	}
	if err == nil {
		err = s.ScanKnown(ctx, func(k Known) error {
			all = append(all, fmt.Sprintf("known %s %s %s", k.ID, k.Route, k.Key))
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := s.State("paused/route-of-secrets")
	if err != nil {
		t.Fatal(err)
	}
	reply, err := s.Reply("0192-first")
	if err != nil {
		t.Fatal(err)
	}
	return append(all, "state "+string(state), "reply "+string(reply.Body))
}

// TestWrongKey: a store is not opened without its key, and is left as it is.
func TestWrongKey(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir, testKeyA))
	secrets(t, s)
	want := everything(t, s)
	closeStore(t, s)
	before := snapshot(t, dir)
	for name, lines := range map[string][]string{"none": nil, "another": {testKeyB}, "plain": {noKey}, "plain and another": {noKey, testKeyB}} {
		for _, inspect := range []bool{false, true} {
			o := sealedOptions(t, dir, lines...)
			o.Inspect = inspect
			if s, err := OpenEmbedded(o); !errors.Is(err, ErrKey) {
				t.Errorf("%s: OpenEmbedded: got %v, want ErrKey", name, err)
				if err == nil {
					closeStore(t, s)
				}
			} else if strings.Contains(err.Error(), testKeyB[:8]) || !strings.Contains(err.Error(), testKeys(t, testKeyA).ID()) {
				t.Errorf("%s: got %q, want the name of the key that is needed and nothing of a key", name, err)
			}
		}
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("the refused openings changed the store:\n%s", d)
	}
	if d := cmp.Diff(want, everything(t, openStore(t, sealedOptions(t, dir, testKeyA)))); d != "" {
		t.Errorf("with the right key (-want +got):\n%s", d)
	}
}

// snapshot is every file below dir but the lock, with its content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockName {
			return err
		}
		b, err := os.ReadFile(path)
		all[path[len(dir):]] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWrongKeyNoIdentity: a lost store.json does not make a sealed store look
// damaged to somebody without its key.
func TestWrongKeyNoIdentity(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir, testKeyA))
	secrets(t, s)
	want := everything(t, s)
	closeStore(t, s)
	if err := os.Remove(filepath.Join(dir, identityName)); err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{nil, {testKeyB}} {
		if _, err := OpenEmbedded(sealedOptions(t, dir, lines...)); !errors.Is(err, ErrKey) {
			t.Errorf("OpenEmbedded: got %v, want ErrKey", err)
		}
		// Refused or not, the attempt has made a new identity; take that away too.
		if err := os.Remove(filepath.Join(dir, identityName)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, everything(t, openStore(t, sealedOptions(t, dir, testKeyA)))); d != "" {
		t.Errorf("with the right key (-want +got):\n%s", d)
	}
}

// need is what store.json says that the store needs.
func need(t *testing.T, dir string) []string {
	t.Helper()
	id, err := readIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id.Keys
}

// TestRotation: plain, sealed, another key, plain again: everything can be read
// all the time, after kills as well, and a key is needed no longer than
// something is sealed with it.
func TestRotation(t *testing.T) {
	a, b := testKeys(t, testKeyA).ID(), testKeys(t, testKeyB).ID()
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir))
	secrets(t, s)
	want := everything(t, s)
	for _, step := range []struct {
		name  string
		lines []string
		clean bool
		need  []string // while the first message waits
	}{
		{"sealed", []string{testKeyA}, true, []string{noKey, a}},
		{"killed and opened again", []string{testKeyA}, false, []string{noKey, a}},
		{"another key", []string{testKeyB, testKeyA}, false, []string{noKey, b}},
		{"the old one is dropped", []string{testKeyB}, true, []string{noKey, b}},
		{"the old one in use again", []string{testKeyA, testKeyB}, false, []string{noKey, a}},
		{"plain again", []string{noKey, testKeyA}, true, nil},
		{"no keys", nil, false, nil},
	} {
		if step.clean {
			closeStore(t, s)
		} else {
			dir = copyStore(t, dir)
		}
		s = openStore(t, sealedOptions(t, dir, step.lines...))
		if d := cmp.Diff(want, everything(t, s)); d != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, d)
		}
		waitFor(t, step.name+": keys that are needed", func() bool { return slices.Equal(need(t, dir), step.need) })
		if d := cmp.Diff(want, everything(t, s)); d != "" {
			t.Fatalf("%s, sealed anew (-want +got):\n%s", step.name, d)
		}
		// The state must be forgotten whatever it was sealed with.
		if err := s.SaveState(t.Context(), "other", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	id, err := readIdentity(dir)
	if err != nil || id.Format != Format {
		t.Errorf("nothing is sealed any more: got format %d, %v, want %d", id.Format, err, Format)
	}
	if err := s.SaveState(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{nil, {testKeyA}, {testKeyB, testKeyA}} {
		closeStore(t, s)
		s = openStore(t, sealedOptions(t, dir, lines...))
		if v, err := s.State("other"); err != nil || v != nil {
			t.Errorf("a state that was forgotten is back: %q, %v", v, err)
		}
		dir = copyStore(t, dir)
		closeStore(t, s)
		s = openStore(t, sealedOptions(t, dir, lines...))
	}
}

// TestRotationLeavesLog: messages are not written anew; their key is needed until they go.
func TestRotationLeavesLog(t *testing.T) {
	a, b := testKeys(t, testKeyA).ID(), testKeys(t, testKeyB).ID()
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir, testKeyA))
	seq := put(t, s, message(1))
	closeStore(t, s)
	s = openStore(t, sealedOptions(t, dir, testKeyB, testKeyA))
	last := put(t, s, message(2))
	closeStore(t, s)
	if got := need(t, dir); !slices.Equal(got, []string{a, b}) {
		t.Errorf("a message waits: needs %v, want %v", got, []string{a, b})
	}
	if _, err := OpenEmbedded(sealedOptions(t, dir, testKeyB)); !errors.Is(err, ErrKey) {
		t.Errorf("without the old key: got %v, want ErrKey", err)
	}
	s = openStore(t, sealedOptions(t, dir, testKeyB, testKeyA))
	scanSeqs(t, s)
	if err := s.Remove(seq); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, sealedOptions(t, dir, testKeyB, testKeyA))
	waitFor(t, "the old key is not needed any more", func() bool { return slices.Equal(need(t, dir), []string{b}) })
	closeStore(t, s)
	s = openStore(t, sealedOptions(t, dir, testKeyB))
	if m, err := s.Get(last); err != nil || m.ID != message(2).ID {
		t.Errorf("Get: got %v, %v", m, err)
	}
}

// TestSetKeys: the keys of an open store change under load; nothing is lost,
// and keys that lack one that is needed are refused.
func TestSetKeys(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	want := map[uint64]string{}
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := message(g)
				m.ID = fmt.Sprintf("%d-%d", g, i)
				seq, err := s.Put(t.Context(), m)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				want[seq] = m.ID
				mu.Unlock()
			}
		})
	}
	stored := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(want)
	}
	for _, step := range []struct {
		lines []string
		ok    bool
	}{
		{[]string{testKeyA}, true},
		{nil, false},
		{[]string{testKeyB}, false},
		{[]string{testKeyB, testKeyA}, true},
		{[]string{testKeyA, testKeyB}, true},
		{[]string{noKey, testKeyA}, false},
		{[]string{noKey, testKeyA, testKeyB}, true},
		{nil, false},
		{[]string{testKeyB, testKeyA}, true},
	} {
		var k *Keys
		if len(step.lines) > 0 {
			k = testKeys(t, step.lines...)
		}
		if err := s.SetKeys(k); (err == nil) != step.ok || err != nil && !errors.Is(err, ErrKey) {
			t.Errorf("SetKeys(%d lines): got %v, want success %v", len(step.lines), err, step.ok)
		}
		n := stored()
		waitFor(t, "messages with these keys", func() bool { return stored() > n+20 || t.Failed() })
	}
	cancel()
	wg.Wait()
	check := func(s *Embedded) {
		for seq, id := range want {
			if m, err := s.Get(seq); err != nil || m.ID != id {
				t.Fatalf("Get(%d): got %v, %v, want %s", seq, m, err, id)
			}
		}
		if n := len(scanSeqs(t, s)); n != len(want) {
			t.Errorf("Scan: %d messages, want %d", n, len(want))
		}
	}
	check(s)
	dir = copyStore(t, dir)
	check(openStore(t, sealedOptions(t, dir, testKeyB, testKeyA)))
	if _, err := OpenEmbedded(sealedOptions(t, copyStore(t, dir), testKeyB)); !errors.Is(err, ErrKey) {
		t.Errorf("a key is missing: got %v, want ErrKey", err)
	}
}

// TestSealedLargest: the longest header that a record can have still passes the
// server when it is sealed.
func TestSealedLargest(t *testing.T) {
	s := openStore(t, sealedOptions(t, t.TempDir(), testKeyA))
	long := strings.Repeat("\xff", maxFields/3-100)
	m := &Message{ID: "id", Route: "r", Destination: "d", Lane: long, Accepted: time.Now(), Body: noise(maxData)} // as earlier versions have stored them
	first := *m
	first.Body = noise(inlineMost)
	seq := put(t, s, &first)
	var attempts []AttemptRecord
	for len(attempts) < 4000 {
		attempts = append(attempts, AttemptRecord{At: time.Now(), Reason: "http://node:9000 connection refused"})
		inline, err := attemptsJSON(attempts)
		if err != nil {
			t.Fatal(err)
		}
		if len(appendField(nil, string(inline))) > maxInline-200 {
			break
		}
	}
	d := &DeadLetter{Message: m, Died: time.Now(), Reason: strings.Repeat("\xff", 256), Text: strings.Repeat("\xff", maxText), ReplyType: strings.Repeat("\xff", 256), Reply: make([]byte, maxReply), Attempts: attempts}
	if err := s.Bury(t.Context(), d); err != nil {
		t.Fatalf("Bury: %v", err)
	}
	if err := s.KeepReply(t.Context(), &Reply{ID: "id", Route: "r", Until: time.Now().Add(time.Hour), Body: make([]byte, maxData)}); err != nil {
		t.Fatalf("KeepReply: %v", err)
	}
	if got, err := s.Get(seq); err != nil || got.Lane != long || len(got.Body) != inlineMost {
		t.Errorf("Get: got %v", err)
	}
	if got, err := s.Dead("id"); err != nil || got.Lane != long || len(got.Attempts) != len(attempts) {
		t.Errorf("Dead: got %v", err)
	}
	if got, err := s.Reply("id"); err != nil || len(got.Body) != maxData {
		t.Errorf("Reply: got %v", err)
	}
}

// TestCensusLogs: the operator is told which old key is needed, and nothing of it.
func TestCensusLogs(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, sealedOptions(t, dir, testKeyA))
	put(t, s, message(1))
	closeStore(t, s)
	var log syncBuffer
	o := sealedOptions(t, dir, testKeyB, testKeyA)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	openStore(t, o)
	waitFor(t, "the census", func() bool { return strings.Contains(log.String(), "keys that the store needs") })
	for _, want := range []string{"key=" + testKeys(t, testKeyA).ID(), "records=1", "the store is sealed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log has no %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), testKeyA[:12]) {
		t.Errorf("the log shows a key:\n%s", log.String())
	}
}

// syncBuffer is a buffer for many goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
