package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const depotWSDL = `<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:x" xmlns:t="urn:x">` +
	`<w:message name="M"><w:part name="p" element="t:hello"/></w:message>` +
	`<w:portType name="T"><w:operation name="Hello"><w:input message="t:M"/></w:operation></w:portType>` +
	`<w:binding name="B" type="t:T"><s:binding/><w:operation name="Hello"/></w:binding>` +
	`<w:service name="S"><w:port name="P" binding="t:B"><s:address location="http://%s/svc"/></w:port></w:service></w:definitions>`

// TestWSDL: a client can start while the backend is down, also when the gateway
// was restarted since, and messages are checked by the description.
func TestWSDL(t *testing.T) {
	var down atomic.Bool
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, depotWSDL, r.Host)
			return
		}
		_, _ = io.WriteString(w, envelope)
	}))
	defer b.Close()
	yaml := head + fmt.Sprintf("store: {durability: relaxed, dir: %q}\n", t.TempDir()) + fmt.Sprintf(`routes:
  - {name: svc, match: {path: /svc}, to: ["%[1]s/svc"], wsdl_check: operation}
  - {name: off, match: {path: /off}, to: ["%[1]s/svc"], wsdl: off}
`, b.URL)
	g := start(t, yaml)
	get := func(path string) string {
		t.Helper()
		a := g.ask(http.MethodGet, path, "")
		if a.status != http.StatusOK {
			t.Fatalf("GET %s: %d %s", path, a.status, a.body)
		}
		return a.body
	}
	mapped := func() string { return fmt.Sprintf(depotWSDL, g.addr("web")) }
	if got := get("/svc?wsdl"); got != mapped() {
		t.Errorf("got %s", got)
	}
	if got := get("/off?wsdl"); got != fmt.Sprintf(depotWSDL, strings.TrimPrefix(b.URL, "http://")) {
		t.Errorf("wsdl: off: got %s", got)
	}
	post := func(body string) int {
		t.Helper()
		resp, err := http.Post("http://"+g.addr("web")+"/svc", "text/xml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusInternalServerError && !strings.Contains(string(answer), ">UnknownOperation<") {
			t.Fatalf("got %s", answer)
		}
		return resp.StatusCode
	}
	if good, bad := post(envelope), post(strings.ReplaceAll(envelope, "hello", "goodbye")); good != 200 || bad != 500 {
		t.Errorf("the operation: %d, another one: %d; want 200, 500", good, bad)
	}
	g.eventually("the name of the operation in the metrics", func() bool {
		return g.metric(`gateway_requests_total{operation="Hello",outcome="answered",route="svc"} 1`)
	})
	down.Store(true)
	if got := get("/svc?wsdl"); got != mapped() {
		t.Errorf("while the backend is down: got %s", got)
	}
	g.end()
	g = start(t, yaml)
	if got := get("/svc?wsdl"); got != mapped() {
		t.Errorf("after a restart while the backend is down: got %s", got)
	}
}

// TestWSDLWhileItComes: a large description goes on to the client while the backend
// still sends it. If it breaks off there, the client knows, and nothing is kept.
func TestWSDLWhileItComes(t *testing.T) {
	more := make(chan struct{})
	var whole atomic.Bool
	doc := strings.Replace(depotWSDL, "<w:message", strings.Repeat("<w:documentation>more</w:documentation>", 10_000)+"<w:message", 1)
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		doc := fmt.Sprintf(doc, r.Host)
		_, _ = io.WriteString(w, doc[:200_000])
		_ = http.NewResponseController(w).Flush()
		<-more
		if !whole.Load() {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, doc[200_000:])
	}))
	defer b.Close()
	dir := t.TempDir()
	for _, engine := range []string{"fast", "std"} {
		for _, good := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whole: %t", engine, good), func(t *testing.T) {
				whole.Store(good)
				store := filepath.Join(dir, engine)
				g := start(t, strings.Replace(head, "{name: web,", "{name: web, engine: "+engine+",", 1)+fmt.Sprintf(`store: {durability: relaxed, dir: %q}
routes:
  - {name: svc, match: {path: /svc}, to: ["%s/svc"]}
`, store, b.URL))
				resp, err := http.Get("http://" + g.addr("web") + "/svc?wsdl")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				begun := make([]byte, 150_000)
				if _, err := io.ReadFull(resp.Body, begun); err != nil {
					t.Fatal(err) // the backend has not sent the rest
				}
				more <- struct{}{}
				rest, err := io.ReadAll(resp.Body)
				if good {
					if got := string(begun) + string(rest); err != nil || got != fmt.Sprintf(doc, g.addr("web")) {
						t.Errorf("got %d octets, %v", len(got), err)
					}
				} else if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got %d octets, then %v, want a transfer that is cut", len(begun)+len(rest), err)
				}
				g.end()
				files, _ := os.ReadDir(filepath.Join(store, "wsdl"))
				if kept := len(files) == 1; kept != good {
					t.Errorf("kept: %v", files)
				}
			})
		}
	}
}
