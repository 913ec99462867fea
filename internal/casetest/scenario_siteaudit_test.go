package casetest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A wireItem is what a hostile site can choose of an item of a batch. It is written
// here by the drawing in the documentation of queue/relay, and not by that package.
type wireItem struct {
	epoch, number uint64
	id, route     string
	trace         []string
	body          []byte
}

func wireText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// wireBatch is a batch as it is on the wire.
func wireBatch(site, store string, items ...wireItem) []byte {
	out := wireText(wireText([]byte("SWB1"), site), store)
	for _, it := range items {
		var h []byte
		for _, n := range []uint64{uint64(len(it.body)), 0, it.epoch, 0, it.number} {
			h = binary.AppendUvarint(h, n)
		}
		for _, s := range []string{"hq", it.id, it.route, "/k", ""} {
			h = wireText(h, s)
		}
		h = append(h, 0)
		for _, s := range []string{"plant.example", "1.1", ""} {
			h = wireText(h, s)
		}
		h = binary.AppendUvarint(h, 1_790_000_000_000_000_000)
		h = binary.AppendUvarint(h, uint64(len(it.trace)))
		for _, s := range it.trace {
			h = wireText(h, s)
		}
		h = binary.AppendUvarint(h, 1)
		h = wireText(wireText(h, "Content-Type"), "text/xml; charset=utf-8")
		out = append(binary.AppendUvarint(append(out, 1), uint64(len(h))), h...)
		out = append(out, it.body...)
		sum := crc32.Checksum(append(h, it.body...), crc32.MakeTable(crc32.Castagnoli))
		out = binary.BigEndian.AppendUint32(out, sum)
	}
	return append(out, 0)
}

// postBatch sends a batch to hq and returns status and answer.
func postBatch(t testing.TB, c *http.Client, at string, body []byte, coding string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "https://"+at+"/_site/v1/batch", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/vnd.soapway.batch")
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	a, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// auditOf reads an audit file.
func auditOf(t testing.TB, path string) (lines []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		m := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatalf("%s: %q: %v", path, s.Text(), err)
		}
		lines = append(lines, m)
	}
	return lines
}

// audited are the lines of an action about a kind, or of any kind if it is empty.
func audited(lines []map[string]any, action, kind string) (some []map[string]any) {
	for _, l := range lines {
		what, _ := l["what"].(map[string]any)
		if l["action"] == action && (kind == "" || what["kind"] == kind) {
			some = append(some, l)
		}
	}
	return some
}

// TestSitesAudited: whatever another site must not do is refused, has a line of the audit
// file that says who and why, and loses nothing of what is right.
func TestSitesAudited(t *testing.T) {
	p := newSitePair(t)
	trail := filepath.Join(t.TempDir(), "audit.log")
	term(t, p.hq)
	p.hqConfig = strings.Replace(p.hqConfig, `admin: {address: "127.0.0.1:0"}`, fmt.Sprintf(`admin: {address: "127.0.0.1:0", audit: %q}`, trail), 1)
	p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
	client := func(name string) *http.Client {
		pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, name+".pem"), filepath.Join(p.dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return p.client(t, pair)
	}
	// An item with a number of its own that is right; X-Key is missing, so that these are
	// of one lane.
	item := func(n uint64, change func(*wireItem)) wireItem {
		it := wireItem{epoch: 9, number: n, id: fmt.Sprintf("0190-%d", n), route: "orders", trace: []string{"plant"}, body: numbered(int(n))}
		if change != nil {
			change(&it)
		}
		return it
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	big := item(50, func(it *wireItem) { it.body = make([]byte, 1<<20) })
	bomb := e.EncodeAll(wireBatch("plant", "s-1", big, big, big, big, big, big, big, big), nil)
	good := wireBatch("plant", "s-1", item(1, nil), item(2, nil))
	plant, branch := client("plant"), client("branch")
	for _, c := range []struct {
		name   string
		as     *http.Client
		body   []byte
		coding string
		status int
		answer string // in it
		kind   string // of the line
		reason string // in it
		site   string
	}{
		{"taken", plant, good, "", 200, `"stored"`, "", "", ""},
		{"replayed", plant, good, "", 200, `"duplicate"`, "repeated", "repeated", "plant"},
		{"replayed, packed", plant, e.EncodeAll(good, nil), "zstd", 200, `"duplicate"`, "repeated", "repeated", "plant"},
		{"no site of ours", branch, good, "", 403, "no site", "certificate", "belongs to no site", ""},
		{"no certificate", p.client(t), good, "", 403, "no site", "certificate", "belongs to no site", ""},
		{"forged name", plant, wireBatch("branch", "s-1", item(3, nil)), "", 403, "belongs to site plant", "forged", "branch", "plant"},
		{"forged way", plant, wireBatch("plant", "s-1", item(4, func(it *wireItem) { it.trace = []string{"branch"} })), "", 200, `"refused"`, "forged", "last site", "plant"},
		{"circle", plant, wireBatch("plant", "s-1", item(5, func(it *wireItem) { it.trace = []string{"hq", "plant"} })), "", 200, "loop", "loop", "passed site hq", "plant"},
		{"route of others", plant, wireBatch("plant", "s-1", item(6, func(it *wireItem) { it.route = "secret" })), "", 200, `"denied"`, "denied", "may not send to route secret", "plant"},
		{"refused item", plant, wireBatch("plant", "s-1", item(7, func(it *wireItem) { it.body = []byte("<no-envelope/>") })), "", 200, `"refused"`, "refused", "VersionMismatch", "plant"},
		{"bomb", plant, bomb, "zstd", 413, "decompress", "bomb", "decompress", "plant"},
		{"garbage", plant, []byte("<Envelope/>"), "", 400, "begins with", "broken", "not a batch", "plant"},
	} {
		before := len(audited(auditOf(t, trail), "site", ""))
		status, answer := postBatch(t, c.as, p.at, c.body, c.coding)
		if status != c.status || !strings.Contains(answer, c.answer) {
			t.Errorf("%s: got %d %s, want %d and %s", c.name, status, answer, c.status, c.answer)
		}
		lines := auditOf(t, trail)
		fresh := audited(lines, "site", "")[before:]
		if c.kind == "" {
			if len(fresh) > 0 {
				t.Errorf("%s: audited as %v", c.name, fresh)
			}
			continue
		}
		if len(fresh) != 1 {
			t.Errorf("%s: %d lines, want one: %v", c.name, len(fresh), fresh)
			continue
		}
		l := fresh[0]
		what, _ := l["what"].(map[string]any)
		if what["kind"] != c.kind || l["result"] != "refused" || !strings.Contains(fmt.Sprint(l["error"]), c.reason) || l["client"] == nil || c.site != "" && what["site"] != c.site {
			t.Errorf("%s: audited as %v, want kind %s of site %q because of %q", c.name, l, c.kind, c.site, c.reason)
		}
		if text := fmt.Sprint(l); strings.Contains(text, "Envelope>") {
			t.Errorf("%s: the line has content of a message: %s", c.name, text)
		}
	}
	// A replay is noticed over a kill, too.
	p.hq.crash(t)
	p.hq = startAgain(t, p.hq, p.hqConfig, p.b)
	if status, answer := postBatch(t, plant, p.at, good, ""); status != 200 || strings.Count(answer, `"duplicate"`) != 2 {
		t.Errorf("replayed after a kill: got %d %s, want duplicate twice", status, answer)
	}
	// What is right goes on: 2 by hand and 20 by the plant, none twice unless marked.
	for i := 100; i < 120; i++ {
		p.order(t, "k", i)
	}
	if !p.settled(t) {
		t.Fatalf("messages wait\n%s", tail(p.plant.log.String()))
	}
	seen := map[string]bool{}
	for _, c := range p.b.got() {
		if body := string(c.Body); seen[body] && c.Fields.get("Gateway-Possible-Duplicate") != "true" {
			t.Errorf("came twice without a mark: %s", body)
		}
		seen[string(c.Body)] = true
	}
	if len(seen) != 22 {
		t.Errorf("%d messages have arrived, want 22", len(seen))
	}
	if n := len(p.plant.dead(t, "orders")); n != 0 {
		t.Errorf("%d dead letters at the plant, want none", n)
	}
}

// TestStolenCertificate: who has a copy of the certificate of a site can send as that site, and
// cannot keep a message of it from arriving. A revocation ends that at once, is
// audited, and loses nothing: with a new invitation what waits goes on.
func TestStolenCertificate(t *testing.T) {
	e := newEnrolled(t)
	trail := filepath.Join(t.TempDir(), "audit.log")
	term(t, e.hq)
	file := filepath.Join(e.hqDir, "gateway.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`admin: {address: "127.0.0.1:0"}`), fmt.Appendf(nil, `admin: {address: "127.0.0.1:0", audit: %q}`, trail), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	e.hq = configured(t, e.hqDir, e.b)

	pairs, err := filepath.Glob(filepath.Join(e.plantDir, "sites", "*.pem"))
	if err != nil || len(pairs) != 1 {
		t.Fatalf("the pair of the link: %v, %v", pairs, err)
	}
	stolen, err := tls.LoadX509KeyPair(pairs[0], pairs[0])
	if err != nil {
		t.Fatal(err)
	}
	thief := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: poolOf(t, filepath.Join(e.hqDir, "sites", "ca.crt")), Certificates: []tls.Certificate{stolen},
	}}, Timeout: patience}
	defer thief.CloseIdleConnections()
	// With the name of the store of the plant, and all numbers that it may guess.
	forged := make([]wireItem, 100)
	for i := range forged {
		forged[i] = wireItem{epoch: 1 << 62, number: uint64(i + 1), id: fmt.Sprintf("0190-%d", i), route: "orders", trace: []string{"plant"}, body: numbered(1000 + i)}
	}
	if status, answer := postBatch(t, thief, e.at, wireBatch("plant", e.plant.ready.StoreID, forged...), ""); status != 200 || strings.Count(answer, `"stored"`) != 100 {
		t.Fatalf("a thief before the revocation: %d %s", status, answer)
	}
	if !eventually(patience, func() bool { return e.b.gotComplete() == 100 }) {
		t.Fatalf("%d of 100 messages have come", e.b.gotComplete())
	}
	const own = 20
	for n := range own {
		if a := post(t, e.plant.addr["http"], "/orders", xml11("urn:test"), numbered(n)); a.Status != 202 {
			t.Fatalf("not a receipt: %s", a)
		}
	}
	if !eventually(patience, func() bool { return e.b.gotComplete() == 100+own }) {
		t.Fatalf("%d of %d messages have come\n%s", e.b.gotComplete(), 100+own, tail(e.plant.log.String()))
	}

	in(t, e.hqDir, 0, "site", "revoke", "plant")
	if status, _ := postBatch(t, thief, e.at, wireBatch("plant", "s-1", forged...), ""); status != 403 {
		t.Errorf("a thief after the revocation: got %d, want 403", status)
	}
	if a := post(t, e.plant.addr["http"], "/orders", xml11("urn:test"), numbered(own)); a.Status != 202 {
		t.Fatalf("not a receipt: %s", a)
	}
	revoked := func() bool {
		for _, l := range audited(auditOf(t, trail), "site", "certificate") {
			if l["result"] == "refused" && strings.Contains(fmt.Sprint(l["error"]), "revoked") {
				return true
			}
		}
		return false
	}
	if !eventually(patience, revoked) {
		t.Errorf("nothing is audited of a revoked certificate: %v", auditOf(t, trail))
	}
	in(t, e.plantDir, 0, "site", "join", "https://"+e.at, e.invite(t))
	if !eventually(patience, func() bool { return e.b.gotComplete() == 100+own+1 }) {
		t.Fatalf("what waited has not arrived\n%s", tail(e.plant.log.String()))
	}
	lines := auditOf(t, trail)
	for _, action := range []string{"site-revoke", "site-invite", "site-join"} {
		some := audited(lines, action, "")
		if len(some) != 1 || some[0]["result"] != "done" || some[0]["what"].(map[string]any)["site"] != "plant" {
			t.Errorf("audited as %s: %v, want one that was done for plant", action, some)
		}
	}
	if text := fmt.Sprint(lines); strings.Contains(text, "site1-") {
		t.Errorf("the audit file has a token: %s", text)
	}
}

// poolOf are the certificates of a PEM file.
func poolOf(t testing.TB, file string) *x509.CertPool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	return pool
}
