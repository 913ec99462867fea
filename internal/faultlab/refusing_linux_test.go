package faultlab

import (
	"bytes"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestRefusingDisk: writes of accepted messages fail for one reason or another.
// A disk without room, or without room for this user, is waited for; any other
// error, and any of a sync, is final: the store stays closed until a restart.
// Either way nothing is lost, and routes that do not store go on.
func TestRefusingDisk(t *testing.T) {
	if why := withoutStrace(nil); why != "" {
		t.Skip(why)
	}
	if testing.Short() {
		t.Skip("takes some seconds for each reason")
	}
	for _, c := range []struct {
		what, reason string
		recovers     bool
	}{
		{"GW_IN_00", "ENOSPC", true},
		{"GW_IN_00", "EDQUOT", true},
		{"GW_IN_00", "EROFS", false},
		{"sync", "ENOSPC", false},
	} {
		t.Run(c.what+" "+c.reason, func(t *testing.T) { refusingDisk(t, c.what, c.reason, c.recovers) })
	}
}

func refusingDisk(t *testing.T, what, reason string, recovers bool) {
	l := newLab(t)
	nodes := l.site()
	l.start()
	l.send(8, 10, 0, 0, l.routes...).wait()
	how, err := l.injected(what, reason)
	if err != nil {
		t.Fatal(err)
	}
	trace := l.strace(how...)
	said := &logTail{}
	trace.Stderr = said
	failed := l.gw.log.await(storeFailed)
	l.rec.breach("", reason)
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	c := l.send(8, 0, 5*time.Millisecond, 0, l.routes...)
	select {
	case <-failed:
	case <-time.After(patience):
		t.Errorf("the store has not noticed; strace: %s", said)
	}
	pause(300 * time.Millisecond)
	if code := l.echo(); code != http.StatusOK {
		t.Errorf("a route that does not store: got %d, want 200", code)
	}
	_ = trace.Process.Signal(syscall.SIGINT) // it lets go of the gateway
	_ = trace.Wait()
	if recovers {
		l.takesAgain()
	} else {
		_, before, _ := l.rec.counts()
		pause(2 * time.Second)
		if _, after, _ := l.rec.counts(); after != before {
			t.Errorf("%d messages were accepted after %s", after-before, reason)
		}
	}
	c.halt()
	if !recovers {
		l.kill()
		l.start()
		l.takesAgain()
	}
	heal(nodes)
	l.finish()
}

// echo asks a route that does not store.
func (l *lab) echo() int {
	l.t.Helper()
	client := &http.Client{Timeout: clientTimeout}
	defer client.CloseIdleConnections()
	res, err := client.Post("http://"+l.gw.addr["web"]+"/echo", "text/xml; charset=utf-8", bytes.NewReader(l.w.body("0-0", smallest, false, l.fork())))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}
