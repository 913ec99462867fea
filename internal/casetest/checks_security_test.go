package casetest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var securityChecks = checkTable{
	"21": {
		"must_not/open file:///etc/hostname or any file":                   opensNothing,
		"must_not/make any DNS or network request to collector.depot.test": connectsNowhere,
		"must_not/echo entity text or a local path in the fault": onAll(func(t *testing.T, r *run, o *outcome) {
			refused(t, r, o)
			wantFault(t, o.a, "1.2", "Client", "Doctype")
			host, _ := os.Hostname()
			for _, s := range []string{"/etc", "hostname", "collector", "leak", host} {
				if s != "" && bytes.Contains(o.a.Body, []byte(s)) {
					t.Errorf("%s: the fault contains %q: %s", o.label(), s, o.a.Body)
				}
			}
		}),
		"must_not/store the message in the durable buffer as accepted": onAll(func(t *testing.T, r *run, o *outcome) {
			if refused(t, r, o); o.a.Status == 202 {
				t.Errorf("%s: stored", o.label())
			}
		}),
	},
	"22": {
		"limits/wall_time_ms_max":  onAll(bombIsCheap),
		"limits/extra_heap_mb_max": onAll(bombIsCheap),
		"also_apply_to":            onAll(bombReply),
		"must_not/expand any general entity": onAll(func(t *testing.T, r *run, o *outcome) {
			refused(t, r, o)
			wantFault(t, o.a, "1.1", "Client", "Doctype")
			if bytes.Contains(o.a.Body, []byte("parcel parcel")) || bytes.Contains(o.a.Body, []byte("QQQQ")) {
				t.Errorf("%s: the fault holds entity text: %s", o.label(), o.a.Body)
			}
		}),
		"must_not/take time that grows with the expansion": onAll(bombIsCheap),
	},
}

// bombIsCheap measures ten refusals in a row against the limits of one.
func bombIsCheap(t *testing.T, r *run, o *outcome) {
	t.Helper()
	grown := r.f.g.growth(t, func() {
		for range 10 {
			if a := post(t, r.f.g.addr["http"], o.target, o.fields, o.body); a.Took > 500*time.Millisecond {
				t.Errorf("%s took %s", o.label(), a.Took)
			}
		}
	})
	if grown > 16<<20 {
		t.Errorf("%s: memory grew by %d KiB", o.label(), grown>>10)
	}
}

// bombReply: the same octets as a reply end as a fault of the gateway.
func bombReply(t *testing.T, r *run, o *outcome) {
	t.Helper()
	r.f.http.reset()
	r.f.http.answerWith(response(200, fields{{"Content-Type", "text/xml; charset=utf-8"}}, o.body))
	var a *answer
	grown := r.f.g.growth(t, func() {
		a = post(t, r.f.g.addr["http"], o.target, o.fields, []byte(`<e:Envelope xmlns:e="`+ns11+`"><e:Body/></e:Envelope>`))
	})
	wantFault(t, a, "1.1", "Server", "BackendNotSOAP")
	if bytes.Contains(a.Body, []byte("parcel")) || bytes.Contains(a.Body, []byte("QQQ")) {
		t.Errorf("%s: relayed: %s", o.label(), a.Body)
	}
	if a.Took > 500*time.Millisecond || grown > 16<<20 {
		t.Errorf("%s: took %s, memory grew by %d KiB", o.label(), a.Took, grown>>10)
	}
}

// withSystem points every external identifier of a case 21 body at uri.
func withSystem(body []byte, uri string) []byte {
	s := string(body)
	for _, old := range []string{"file:///etc/hostname", "http://collector.depot.test/envelope.dtd", "http://collector.depot.test/p.dtd"} {
		s = strings.ReplaceAll(s, old, uri)
	}
	return []byte(s)
}

// opensNothing points the entities at a named pipe: whoever opens it to read
// makes a non-blocking open for writing succeed.
func opensNothing(t *testing.T, r *run) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := makePipe(pipe); err != nil {
		t.Skipf("no named pipes: %v", err)
	}
	for _, o := range r.list {
		refused(t, r, o)
		wantFault(t, post(t, r.f.g.addr["http"], o.target, o.fields, withSystem(o.body, "file://"+pipe)), "1.2", "Client", "Doctype")
		if isRead(pipe) {
			t.Errorf("%s: the gateway opened the file of an external entity", o.label())
		}
	}
}

// connectsNowhere points them at a listener that must see no connection.
func connectsNowhere(t *testing.T, r *run) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	came := make(chan struct{}, 1)
	go func() {
		if c, err := ln.Accept(); err == nil {
			c.Close()
			came <- struct{}{}
		}
	}()
	for _, o := range r.list {
		post(t, r.f.g.addr["http"], o.target, o.fields, withSystem(o.body, "http://"+ln.Addr().String()+"/x.dtd"))
	}
	select {
	case <-came:
		t.Error("the gateway fetched an external entity")
	case <-time.After(200 * time.Millisecond):
	}
}
