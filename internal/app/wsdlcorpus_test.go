package app

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"soapway/soapcodec/wsdl"
	"soapway/xmlstream"
)

// A library serves documents under /lib, with addresses that name itself.
type library struct {
	*httptest.Server
	docs map[string][]byte // by their path below /lib
}

// openLibrary serves the published descriptions.
func openLibrary(t testing.TB) *library {
	root := filepath.Join("..", "..", "..", "shared", "corpus", "wsdl")
	if dir := os.Getenv("CORPUS"); dir != "" {
		root = filepath.Join(dir, "wsdl")
	}
	if _, err := os.Stat(root); err != nil {
		t.Skip("no corpus of WSDLs beside the checkout; TestWSDL has one of its own")
	}
	l := &library{docs: map[string][]byte{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, ok := l.docs[strings.TrimPrefix(r.URL.Path, "/lib/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		_, _ = w.Write(doc)
	}))
	t.Cleanup(l.Close)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		octets, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		doc, _, err := xmlstream.DecodeBytes(octets, "")
		if err != nil {
			return err
		}
		l.docs[name], err = wsdl.Rewrite(nil, doc, func(r wsdl.Ref) (string, bool) {
			return l.URL + "/lib/" + name, r.Use == wsdl.Address && strings.HasPrefix(r.Value, "http")
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// differing lists the tokens in which two documents differ; ok is false if they
// have not the same kinds of tokens.
func differing(t *testing.T, a, b []byte) (list [][2]string, ok bool) {
	t.Helper()
	sa, sb := xmlstream.NewScanner(xmlstream.Limits{}), xmlstream.NewScanner(xmlstream.Limits{})
	sa.ResetBytes(a)
	sb.ResetBytes(b)
	for {
		ka, ea := sa.Next()
		kb, eb := sb.Next()
		switch {
		case ea == io.EOF && eb == io.EOF:
			return list, true
		case ea != nil || eb != nil || ka != kb:
			return list, false
		case !bytes.Equal(sa.Raw(), sb.Raw()):
			list = append(list, [2]string{string(sa.Raw()), string(sb.Raw())})
		}
	}
}

// TestWSDLCorpus: the published descriptions load through the gateway, and token
// by token nothing but the addresses differs. What they refer to by relative
// references is found behind these.
func TestWSDLCorpus(t *testing.T) {
	l := openLibrary(t)
	g := start(t, head+fmt.Sprintf("store: {durability: relaxed, dir: %q}\nroutes: [{name: lib, match: {path: \"/gw/*\"}, to: [%q], methods: [GET]}]\n", t.TempDir(), l.URL+"/lib"))
	sets, addresses, relative := map[string]bool{}, 0, 0
	for name, doc := range l.docs {
		set, _, _ := strings.Cut(name, "/")
		sets[set] = true
		query := "?wsdl"
		if strings.HasSuffix(name, ".xsd") {
			query = "?xsd=1"
		}
		a := g.ask(http.MethodGet, "/gw/"+name+query, "")
		if a.status != http.StatusOK {
			t.Errorf("%s: status %d", name, a.status)
			continue
		}
		list, ok := differing(t, doc, []byte(a.body))
		if !ok {
			t.Errorf("%s has other tokens", name)
		}
		own, ours := l.URL+"/lib/"+name, "http://"+g.addr("web")+"/gw/"+name
		for _, d := range list {
			if strings.ReplaceAll(d[0], own, ours) != d[1] || strings.Count(d[0], own) != 1 {
				t.Errorf("%s: %s became %s", name, d[0], d[1])
			}
		}
		if n := bytes.Count(doc, []byte(own)); n != len(list) {
			t.Errorf("%s: %d of %d addresses are mapped", name, len(list), n)
		}
		addresses += len(list)
		err := wsdl.References(doc, func(r wsdl.Ref) {
			to := path.Join(path.Dir(name), r.Value)
			if want := l.docs[to]; r.Use != wsdl.Address && !strings.Contains(r.Value, ":") && want != nil {
				relative++
				if a := g.ask(http.MethodGet, "/gw/"+to, ""); a.status != http.StatusOK || a.body != string(want) {
					t.Errorf("%s refers to %s, which is answered with %d", name, r.Value, a.status)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d sets, %d documents, %d addresses, %d relative references", len(sets), len(l.docs), addresses, relative)
	if len(sets) < 13 || addresses < 15 || relative == 0 {
		t.Errorf("the corpus is not whole")
	}
}

// BenchmarkWSDLFront loads the largest of the published descriptions through a
// route that maps its addresses and one that passes it as it is, in turn. "kept" is
// one that the gateway has, "first" one that nobody has ever asked for, which goes on
// while it is got and read, and is then written to the disk. The metric is the time
// beside that of the route that passes. Backend, gateway and client share the processors
// of this machine, and 2.3 MB take 2 ms from one to the other; "line" is "first" from a
// backend behind 1 Gbit/s.
//
//	go test ./internal/app -run '^$' -bench WSDLFront -benchtime 100x
func BenchmarkWSDLFront(b *testing.B) {
	l := openLibrary(b)
	const name = "vboxweb.wsdl"
	g := start(b, head+fmt.Sprintf(`store: {durability: relaxed, dir: %q}
routes:
  - {name: maps, match: {path: "/maps/*"}, to: [%[2]q]}
  - {name: passes, match: {path: "/passes/*"}, to: [%[2]q], wsdl: off}
  - {name: maps-line, match: {path: "/line/maps/*"}, to: [%[3]q]}
  - {name: passes-line, match: {path: "/line/passes/*"}, to: [%[3]q], wsdl: off}
`, b.TempDir(), l.URL+"/lib", behindLine(b, l.docs[name]).URL+"/lib"))
	load := func(path string) time.Duration {
		began := time.Now()
		resp, err := http.Get("http://" + g.addr("web") + path)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n < int64(len(l.docs[name]))-100 {
			b.Fatalf("%d octets, %v", n, err)
		}
		return time.Since(began)
	}
	for _, kind := range []string{"kept", "first", "line"} {
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(int64(len(l.docs[name])))
			var maps, passes []time.Duration
			for i := 0; b.Loop(); i++ {
				query, line := "?wsdl", ""
				if kind != "kept" {
					query = fmt.Sprintf("?wsdl&%d", i)
				}
				if kind == "line" {
					line = "/line"
				}
				passes = append(passes, load(line+"/passes/"+name+query))
				maps = append(maps, load(line+"/maps/"+name+query))
				// The next one must not compete with the keeping of this one, for which HEAD waits.
				g.ask(http.MethodHead, line+"/maps/"+name+query, "")
			}
			slices.Sort(maps)
			slices.Sort(passes)
			b.ReportMetric(float64(maps[len(maps)/2])/float64(passes[len(passes)/2]), "x-passed")
		})
	}
}

// behindLine is a backend with one description, as fast as 1 Gbit/s.
func behindLine(b *testing.B, doc []byte) *httptest.Server {
	const piece, every = 62_500, 500 * time.Microsecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
		began := time.Now()
		for n := 0; n < len(doc); n += piece {
			<-time.After(time.Until(began.Add(time.Duration(n/piece+1) * every)))
			_, _ = w.Write(doc[n:min(n+piece, len(doc))])
		}
	}))
	b.Cleanup(s.Close)
	return s
}
