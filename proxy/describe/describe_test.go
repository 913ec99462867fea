package describe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"soapway/soapcodec"
	"soapway/soapcodec/wsdl"
)

// library is a source of documents in memory.
type library struct {
	mu    sync.Mutex
	docs  map[Location]string
	etag  bool
	err   error
	asked []string
	delay time.Duration
}

func (l *library) fetch(ctx context.Context, at Location, etag, modified string) (*Copy, error) {
	if l.delay > 0 {
		select {
		case <-time.After(l.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, string(at)+" "+etag)
	if l.err != nil {
		return nil, l.err
	}
	doc, ok := l.docs[at]
	if !ok {
		return nil, &StatusError{Status: 404}
	}
	c := &Copy{Status: 200, Type: "text/xml", Body: content(doc)}
	if l.etag {
		c.ETag = fmt.Sprintf(`"%d"`, len(doc))
		if etag == c.ETag {
			return &Copy{Status: 304}, nil
		}
	}
	return c, nil
}

func content(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func readBody(t *testing.T, c *Copy) []byte {
	t.Helper()
	b, err := io.ReadAll(c.Body)
	if err = errors.Join(err, c.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *library) set(f func()) { l.mu.Lock(); defer l.mu.Unlock(); f() }

func (l *library) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.asked = nil }()
	return slices.Clone(l.asked)
}

func plain(_ Location, ref string) (Location, bool) {
	return Location(ref), strings.HasPrefix(ref, "/")
}

func definitions(content string) string {
	return `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:t" xmlns:t="urn:t">` + content + `</w:definitions>`
}

func imports(locations ...string) (s string) {
	for _, l := range locations {
		s += `<w:import location="` + l + `"/>`
	}
	return s
}

// A document is asked for again when its time is over, and an old one is better
// than none.
func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := &library{docs: map[Location]string{"/a?wsdl": definitions("<!-- 1 -->")}, etag: true}
		f := NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain})
		get := func(want string, stale bool, asked ...string) {
			t.Helper()
			d, err := f.Get(ctx, "/a?wsdl")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(d.Body), want) || d.Stale != stale {
				t.Errorf("got %s, stale %t; want %s, %t", d.Body, d.Stale, want, stale)
			}
			if got := l.got(); !slices.Equal(got, asked) {
				t.Errorf("the source was asked %q, want %q", got, asked)
			}
		}
		etag := fmt.Sprintf(` "%d"`, len(definitions("<!-- 1 -->")))
		get("<!-- 1 -->", false, "/a?wsdl ")
		get("<!-- 1 -->", false)
		time.Sleep(DefaultFresh)
		get("<!-- 1 -->", false, "/a?wsdl"+etag)
		get("<!-- 1 -->", false)
		time.Sleep(DefaultFresh)
		l.set(func() { l.docs["/a?wsdl"] = definitions("<!-- the second -->") })
		get("the second", false, "/a?wsdl"+etag)
		time.Sleep(DefaultFresh)
		etag = fmt.Sprintf(` "%d"`, len(definitions("<!-- the second -->")))
		l.set(func() { l.err = errors.New("down") })
		get("the second", true, "/a?wsdl"+etag)
		get("the second", true) // not everybody asks a dead source
		time.Sleep(5 * time.Second)
		l.set(func() { l.err = nil })
		get("the second", false, "/a?wsdl"+etag)

		// What is not there any more is not handed out.
		time.Sleep(DefaultFresh)
		l.set(func() { delete(l.docs, "/a?wsdl") })
		var status *StatusError
		if _, err := f.Get(ctx, "/a?wsdl"); !errors.As(err, &status) || status.Status != 404 {
			t.Errorf("got error %v, want status 404", err)
		}
		// A slow source keeps nobody waiting who can have an older copy.
		l.set(func() { l.docs["/a?wsdl"] = definitions("<!-- 4 -->") })
		get("<!-- 4 -->", false, "/a?wsdl"+etag, "/a?wsdl"+etag)
		time.Sleep(DefaultFresh)
		l.delay = time.Hour
		began := time.Now()
		get("<!-- 4 -->", true)
		if took := time.Since(began); took != haste {
			t.Errorf("waited for %v, want %v", took, haste)
		}
	})
}

// What a source without tags sends again unchanged is not read again.
func TestGetUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{docs: map[Location]string{"/a": definitions("")}}
		f := NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain})
		var last *Document
		for i := range 4 {
			d, err := f.Get(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			if same := last == d; same != (i == 1 || i == 3) {
				t.Errorf("document %d is the one before: %t", i, same)
			}
			last = d
			time.Sleep(DefaultFresh)
			if i == 1 {
				l.set(func() { l.docs["/a"] = definitions("<!-- new -->") })
			}
		}
		if got := len(l.got()); got != 4 {
			t.Errorf("asked %d times", got)
		}
	})
}

// Many that ask at once for what cannot be had do not wait one after the other.
func TestGetTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{delay: time.Hour}
		f := NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain})
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := f.Get(t.Context(), "/a?wsdl"); err == nil {
					t.Error("got a document")
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != patience {
			t.Errorf("20 waited for %v, want %v", took, patience)
		}
		if len(f.entries) != 0 {
			t.Errorf("%d places for documents that are not there", len(f.entries))
		}
	})
}

// Nothing but well-formed XML is handed out, in UTF-8.
func TestGetContent(t *testing.T) {
	utf16 := []byte("\xfe\xff")
	for _, c := range `<?xml version="1.0" encoding="UTF-16"?><d>é</d>` {
		utf16 = append(utf16, byte(c>>8), byte(c))
	}
	for _, tt := range []struct {
		name, typ, body string
		want, wantType  string
	}{
		{"as it is", "application/wsdl+xml", `<?xml version="1.0" encoding="UTF-8"?><d/>`, `<?xml version="1.0" encoding="UTF-8"?><d/>`, "application/wsdl+xml"},
		{"no type", "", "<d/>", "<d/>", "text/xml; charset=utf-8"},
		{"utf-16", "text/xml; charset=utf-16", string(utf16), `<?xml version="1.0"?><d>é</d>`, "text/xml; charset=utf-8"},
		{"latin-1 by its label", "text/xml; charset=iso-8859-1", "<d>\xe9</d>", "<d>é</d>", "text/xml; charset=utf-8"},
		{"a web page", "text/html", "<html><p>down</html>", "", ""},
		{"a DOCTYPE", "text/xml", `<!DOCTYPE d SYSTEM "http://169.254.169.254/"><d/>`, "", ""},
		{"empty", "text/xml", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFront(Options{Name: "r", Resolve: plain, Fetch: func(context.Context, Location, string, string) (*Copy, error) {
				return &Copy{Status: 200, Type: tt.typ, Body: content(tt.body)}, nil
			}})
			d, err := f.Get(t.Context(), "/a?wsdl")
			if tt.want == "" {
				if err == nil {
					t.Fatalf("got %s", d.Body)
				}
				return
			}
			if err != nil || string(d.Body) != tt.want || d.Type != tt.wantType {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// What is on the shelf is there after a restart while the source is down, also
// when a file was damaged.
func TestShelf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wsdl")
	l := &library{docs: map[Location]string{"/a?wsdl": definitions(imports("/b?xsd=1")), "/b?xsd=1": "<d/>"}}
	open := func(name string) *Front {
		return NewFront(Options{Name: name, Fetch: l.fetch, Resolve: plain, Shelf: NewShelf(dir)})
	}
	first := open("r")
	if _, err := first.Service(t.Context(), "/a?wsdl"); err != nil {
		t.Fatal(err)
	}
	token := first.Token("/b?xsd=1")
	l.set(func() { l.err = errors.New("down") })
	again := open("r")
	for at, want := range l.docs {
		d, err := again.Get(t.Context(), at)
		if err != nil || string(d.Body) != want || !d.Stale {
			t.Errorf("%s: got %+v, %v", at, d, err)
		}
	}
	if at, err := open("r").Find(t.Context(), "/a?wsdl", token); err != nil || at != "/b?xsd=1" {
		t.Errorf("the token leads to %q, %v", at, err)
	}
	if _, err := open("r").Find(t.Context(), "/a?wsdl", "~0123"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an invented token: %v", err)
	}
	if _, err := open("other").Get(t.Context(), "/a?wsdl"); err == nil {
		t.Error("another route has the document")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, e := range files {
		name := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-2] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := range l.docs {
		if d, err := open("r").Get(t.Context(), at); err == nil {
			t.Errorf("%s: a damaged file was handed out: %s", at, d.Body)
		}
	}
}

// Who asks for names without end fills neither disk nor memory.
func TestShelfIsBounded(t *testing.T) {
	dir := t.TempDir()
	f := NewFront(Options{Name: "r", Resolve: plain, Shelf: NewShelf(dir), Fetch: func(context.Context, Location, string, string) (*Copy, error) {
		return &Copy{Status: 200, Body: content("<d/>")}, nil
	}})
	for i := range maxFiles + 50 {
		if _, err := f.Get(t.Context(), Location(fmt.Sprintf("/a?wsdl=%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != maxFiles {
		t.Errorf("%d files, %v; want %d", len(files), err, maxFiles)
	}
	if len(f.entries) > MaxDocuments+1 {
		t.Errorf("%d documents in memory", len(f.entries))
	}
}

// A service is read once each, however its documents refer to each other.
func TestService(t *testing.T) {
	port := `<w:service name="S"><w:port name="P" binding="t:B"><s:address location="/x"/></w:port></w:service>`
	bound := `<w:binding name="B" type="t:T"><s:binding style="rpc"/><w:operation name="Do"><w:input><s:body namespace="urn:do"/></w:input></w:operation></w:binding>`
	typ := `<w:portType name="T"><w:operation name="Do"><w:input message="t:M"/></w:operation></w:portType>`
	l := &library{docs: map[Location]string{
		"/a": definitions(imports("/b", "/a", "/gone", "http://elsewhere.test/") + port),
		"/b": definitions(imports("/a", "/c") + bound),
		"/c": definitions(imports("/b") + typ),
	}}
	f := NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain})
	if f.Known("/a") != nil {
		t.Error("known before it was read")
	}
	s, err := f.Service(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/a ", "/b ", "/gone ", "/c "}; !slices.Equal(l.got(), want) {
		t.Errorf("asked for other documents than %q", want)
	}
	if len(s.Missing) != 2 || !strings.Contains(s.Missing[0], "elsewhere") || !strings.Contains(s.Missing[1], "404") {
		t.Errorf("missing: %q", s.Missing)
	}
	op, ok := s.Operation(soapcodec.QName{Space: "urn:do", Local: "Do"})
	if !ok || op.Name != "Do" || !op.OneWay {
		t.Errorf("got operation %+v", op)
	}
	if s.Takes(soapcodec.QName{Space: "urn:other", Local: "Do"}) || s.Takes(soapcodec.QName{}) {
		t.Error("takes what is not described")
	}
	if f.Known("/a") != s {
		t.Error("not known")
	}
}

func TestServiceLimits(t *testing.T) {
	deep := func(ctx context.Context, at Location, _, _ string) (*Copy, error) {
		return &Copy{Status: 200, Body: content(definitions(imports(string(at) + "x")))}, nil
	}
	f := NewFront(Options{Name: "r", Fetch: deep, Resolve: plain})
	s, err := f.Service(t.Context(), "/")
	if err != nil || len(s.Documents) != MaxDepth+1 || len(s.Missing) != 1 {
		t.Errorf("a chain without end: %d documents, %v", len(s.Documents), err)
	}
	n := 0
	wide := func(ctx context.Context, at Location, _, _ string) (*Copy, error) {
		var refs []string
		for range 40 {
			n++
			refs = append(refs, fmt.Sprintf("/%d", n))
		}
		return &Copy{Status: 200, Body: content(definitions(imports(refs...)))}, nil
	}
	if _, err := NewFront(Options{Name: "r", Fetch: wide, Resolve: plain}).Service(t.Context(), "/"); !errors.Is(err, ErrTooMany) {
		t.Errorf("a tree without end: %v", err)
	}
	large := func(ctx context.Context, at Location, _, _ string) (*Copy, error) {
		n++
		return &Copy{Status: 200, Body: content(definitions(imports(fmt.Sprintf("/%d", n)) + strings.Repeat(" ", MaxDocument/2)))}, nil
	}
	n = 0
	if _, err := NewFront(Options{Name: "r", Fetch: large, Resolve: plain}).Service(t.Context(), "/"); !errors.Is(err, ErrTooMany) || n > 10 {
		t.Errorf("a service of %d large documents: %v", n, err)
	}
}

// No file outside of the folder is read, by any name or link.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret.xml", "<secret/>")
	write("svc/a.wsdl", "<a/>")
	write("svc/types/b.xsd", "<b/>")
	if err := os.Symlink(filepath.Join(dir, "secret.xml"), filepath.Join(dir, "svc", "link.xsd")); err != nil {
		t.Log("no links here:", err)
	}
	f := NewFiles(filepath.Join(dir, "svc", "a.wsdl"))
	root := f.Root()
	for _, tt := range []struct{ from, ref, want string }{
		{"", "types/b.xsd", "<b/>"},
		{"file:types/b.xsd", "../a.wsdl", "<a/>"},
		{"", "./types/../a.wsdl#part", "<a/>"},
		{"", "../secret.xml", ""},
		{"", "types/../../secret.xml", ""},
		{"", "/etc/passwd", ""},
		{"", "file:///etc/passwd", ""},
		{"", "file:secret.xml", ""},
		{"", "link.xsd", ""},
		{"", "types", ""},
		{"", "nowhere.xsd", ""},
		{"", "%2e%2e/secret.xml", ""},
		{"", "http://127.0.0.1/x", ""},
		{"", "", ""},
	} {
		from := Location(tt.from)
		if from == "" {
			from = root
		}
		got := ""
		if at, ok := Follow(from, tt.ref, nil); ok {
			if c, err := f.Fetch(at, ""); err == nil {
				got = string(readBody(t, c))
			}
		}
		if got != tt.want {
			t.Errorf("%s from %s: got %q, want %q", tt.ref, from, got, tt.want)
		}
	}
}

// Only hosts that are named are asked, and by none of the ways that lead elsewhere.
func TestClient(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("the secret was asked for: %s", r.URL) }))
	defer secret.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/good.xsd", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<good/>") })
	mux.HandleFunc("/moved.xsd", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good.xsd", http.StatusFound) })
	mux.HandleFunc("/away.xsd", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL+"/x", http.StatusFound) })
	mux.HandleFunc("/file.xsd", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/round.xsd", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round.xsd", http.StatusFound) })
	mux.HandleFunc("/huge.xsd", func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 1<<20)
		for range MaxDocument>>20 + 1 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient([]string{host, "localhost"})
	for _, tt := range []struct {
		name, at string
		ok       bool
	}{
		{"named", server.URL + "/good.xsd", true},
		{"by a name of this machine that was given", "http://localhost:" + port + "/good.xsd", true},
		{"a redirect on the host", server.URL + "/moved.xsd", true},
		{"a redirect to another host", server.URL + "/away.xsd", false},
		{"a redirect to a file", server.URL + "/file.xsd", false},
		{"a loop", server.URL + "/round.xsd", false},
		{"too large", server.URL + "/huge.xsd", false},
		{"not named", secret.URL + "/x", false},
		{"cloud metadata", "http://169.254.169.254/latest/meta-data/", false},
		{"another port", "http://127.0.0.1:1/good.xsd", false},
		{"user information", "http://user@" + host + "/good.xsd", false},
		{"a file", "file:///etc/passwd", false},
		{"gopher", "gopher://" + host + "/", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := NewFront(Options{Fetch: c.Fetch}).Get(t.Context(), Location(tt.at))
			if ok := err == nil; ok != tt.ok {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// A name that DNS lets lead to this machine or its link is not followed there.
func TestClientRebinding(t *testing.T) {
	for _, at := range []string{"127.0.0.1:80", "[::1]:80", "169.254.169.254:80", "[fe80::1]:80", "[::ffff:127.0.0.1]:80", "0.0.0.0:80"} {
		if err := control("schemas.test")("tcp", at, nil); !errors.Is(err, errAddress) {
			t.Errorf("%s: %v, want it refused", at, err)
		}
	}
	if err := control("schemas.test")("tcp", "10.0.0.5:80", nil); err != nil {
		t.Errorf("a private address: %v", err)
	}
	if control("127.0.0.1") != nil || control("localhost") != nil || control("::1") != nil {
		t.Error("an address that was given as such needs no look")
	}
}

// Messages that have the same element, or any, are told apart by their actions.
func TestOperation(t *testing.T) {
	doc := `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:m="http://www.w3.org/2007/05/addressing/metadata" targetNamespace="urn:t" xmlns:t="urn:t">
	<w:message name="Do"><w:part name="p" element="t:Do"/></w:message><w:message name="Any"><w:part name="p" type="t:Any"/></w:message><w:message name="Empty"/>
	<w:portType name="T">
	<w:operation name="First"><w:input message="t:Do"/><w:output message="t:Do"/></w:operation>
	<w:operation name="Second"><w:input message="t:Do" m:Action="urn:second"/></w:operation>
	<w:operation name="Open"><w:input message="t:Any" name="In"/></w:operation>
	<w:operation name="Ping"><w:input message="t:Empty"/></w:operation>
	</w:portType>
	<w:binding name="B" type="t:T"><s:binding/><w:operation name="First"><s:operation soapAction="urn:first"/></w:operation><w:operation name="Second"/><w:operation name="Open"/><w:operation name="Ping"/></w:binding>
	<w:service name="S"><w:port name="P" binding="t:B"/><w:port name="Q" binding="t:B"/></w:service></w:definitions>`
	l := &library{docs: map[Location]string{"/a": doc}}
	s, err := NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain}).Service(t.Context(), "/a")
	if err != nil {
		t.Fatal(err)
	}
	do, other := soapcodec.QName{Space: "urn:t", Local: "Do"}, soapcodec.QName{Space: "urn:x", Local: "X"}
	for _, tt := range []struct {
		input   soapcodec.QName
		actions []string
		want    string
	}{
		{do, nil, ""},
		{do, []string{"", "urn:other"}, ""},
		{do, []string{"urn:first"}, "First"},
		{do, []string{"", "urn:second"}, "Second"},
		{do, []string{"urn:t:T:FirstRequest"}, "First"},
		{other, nil, ""},
		{other, []string{"urn:first"}, ""},
		{other, []string{"urn:t:T:In"}, "Open"},
		{soapcodec.QName{}, nil, "Ping"},
	} {
		got := ""
		if op, ok := s.Operation(tt.input, tt.actions...); ok {
			got = op.Name
		}
		if got != tt.want {
			t.Errorf("Operation(%v, %q): got %q, want %q", tt.input, tt.actions, got, tt.want)
		}
	}
	for name, want := range map[string]bool{"First": true, "Do": true, "Nothing": true} { // one may have anything
		if got := s.Names(soapcodec.QName{Space: "urn:t", Local: name}, false); got != want {
			t.Errorf("Names(%s): got %t", name, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Operation(do, "urn:first", "", "urn:second") }); n > 0 {
		t.Errorf("Operation: %.0f allocations", n)
	}
}

// Names for metrics are bounded, whatever a source sends in the course of time.
func TestLabel(t *testing.T) {
	f := NewFront(Options{Name: "r"})
	seen := map[string]bool{}
	for i := range 3 * maxLabels {
		seen[f.Label(&wsdl.Operation{Name: fmt.Sprint("op", i)})] = true
	}
	if len(seen) != maxLabels+1 || f.Label(&wsdl.Operation{Name: "op7"}) != "op7" {
		t.Errorf("%d names", len(seen))
	}
	if NewFront(Options{}).Label(&wsdl.Operation{Name: strings.Repeat("x", maxLabel+1)}) != "" {
		t.Error("a very long name")
	}
}

// What is kept is known without asking, and as what was asked for.
func TestRecall(t *testing.T) {
	dir := t.TempDir()
	l := &library{docs: map[Location]string{"/a?wsdl": definitions(imports("/b?xsd=1")), "/b?xsd=1": definitions(""), "/c?WSDL": definitions("")}}
	open := func() *Front {
		return NewFront(Options{Name: "r", Fetch: l.fetch, Resolve: plain, Shelf: NewShelf(dir)})
	}
	if _, err := open().Recall(t.Context(), "/a?wsdl"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing is kept: %v", err)
	}
	for _, at := range []Location{"/a?wsdl", "/c?WSDL"} {
		if _, err := open().Service(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	l.got()
	f := open()
	s, err := f.Recall(t.Context(), "/a?wsdl")
	if err != nil || len(s.Documents) != 2 || f.Known("/a?wsdl") != s || !s.Old() {
		t.Errorf("got %+v, %v", s, err)
	}
	if got := l.got(); len(got) != 0 {
		t.Errorf("the source was asked %q", got)
	}
	again, err := f.Service(t.Context(), "/a?wsdl")
	if err != nil || again.Catalog != s.Catalog || again.Old() {
		t.Errorf("what has not changed was put together again: %v", err)
	}
	roots := NewShelf(dir).Roots("r")
	slices.Sort(roots)
	if !slices.Equal(roots, []Location{"/a?wsdl", "/c?WSDL"}) || NewShelf(dir).Roots("other") != nil {
		t.Errorf("the roots are %q", roots)
	}
}
