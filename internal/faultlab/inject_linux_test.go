package faultlab

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withoutStrace says why no call of the gateway can be made to fail.
func withoutStrace(*storm) string {
	if os.Geteuid() != 0 {
		return "to inject an error needs root"
	}
	if _, err := exec.LookPath("strace"); err != nil {
		return "no strace here (apt-get install strace, or make interop)"
	}
	return ""
}

// injected are the calls that fail for a reason, such as EIO: syncs, or writes of
// a stream's messages.
func (l *lab) injected(what, reason string) ([]string, error) {
	if what == "sync" {
		return []string{"-e", "trace=syncfs", "-e", "inject=syncfs:error=" + reason}, nil
	}
	dir := messagesOf(l.store, what)
	files, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	if err != nil {
		return nil, err
	}
	last := 1
	for _, f := range files {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk"))
		last = max(last, n)
	}
	args := []string{"-e", "trace=write,pwrite64", "-e", "inject=write,pwrite64:error=" + reason}
	for n := last; n < last+4; n++ { // a new one may be begun meanwhile
		args = append(args, "-P", filepath.Join(dir, strconv.Itoa(n)+".blk"))
	}
	return args, nil
}

// failStore lets the disk answer with EIO. What is under way has an unknown
// outcome; the store is closed; the gateway goes on with its sync routes, or ends
// and says so. The next start has everything.
func (s *storm) failStore(what string, exit bool) {
	s.t.Helper()
	if exit {
		s.stop()
		s.onFailure = "exit"
		s.write(s.plans...)
		s.start()
		defer func() { s.onFailure = ""; s.write(s.plans...) }()
	}
	pause(s.between(100*time.Millisecond, 300*time.Millisecond)) // until the senders are back
	how, err := s.injected(what, "EIO")
	if err != nil {
		s.t.Fatal(err)
	}
	var said bytes.Buffer
	trace := s.strace(how...)
	trace.Stderr = &said
	failed := s.gw.log.await(storeFailed)
	s.rec.breach("", "EIO for "+what)
	if err := trace.Start(); err != nil {
		s.t.Fatal(err)
	}
	var late error
	select {
	case <-failed:
	case <-s.gw.gone:
	case <-time.After(patience):
		late = errors.New("the store has not noticed")
	}
	s.rec.breach("", "the store has failed")
	_ = trace.Process.Signal(syscall.SIGINT) // it lets go of the gateway
	_ = trace.Wait()
	if late != nil {
		s.t.Errorf("EIO for %s: %v; strace: %s\n%s", what, late, &said, s.gw.tail())
		return
	}
	if exit {
		s.exited()
		s.after()
	} else {
		s.degraded()
		s.rec.breach("", "restart")
		if s.rnd.IntN(2) == 0 {
			s.kill()
		} else {
			s.stop()
		}
	}
	s.launch()
}

// strace is one that is to be attached to the gateway.
func (l *lab) strace(args ...string) *exec.Cmd {
	return exec.Command("strace", append([]string{"-f", "-o", os.DevNull, "-p", strconv.Itoa(l.gw.cmd.Process.Pid)}, args...)...)
}

// syncingNothing is a gateway whose syncs do nothing and say that all is well. What
// it has accepted does not outlive the power, and the checker says so.
func syncingNothing(t *testing.T) {
	l := newLabOn(t, mountDisk(t, 128<<20))
	n := newBackend(t, l.rec, l.seed, "free")
	l.configure(plan{name: "free", node: n})
	l.start()
	trace := l.strace("-e", "trace=syncfs,fsync,fdatasync", "-e", "inject=syncfs,fsync,fdatasync:retval=0")
	said := &logTail{}
	trace.Stderr = said
	attached := said.await("attached")
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-attached:
	case <-time.After(patience):
		t.Errorf("strace: %s", said)
	}
	l.send(8, 20, 0, 0, "free").wait()
	if l.acceptances() == 0 {
		t.Error("no message was accepted")
	}
	l.powerCut()
	_ = trace.Wait() // it ends with the gateway
	l.start()
	n.up()
	l.settle(patience)
	l.mustFind(isLost)
	l.stop()
}

// exited: on_failure: exit ends the process, and its supervisor hears of it.
func (s *storm) exited() {
	s.t.Helper()
	select {
	case <-s.gw.gone:
		if code := s.gw.cmd.ProcessState.ExitCode(); code != 1 {
			s.t.Errorf("the store has failed, on_failure: exit: exit %d, want 1\n%s", code, s.gw.tail())
		}
	case <-time.After(patience):
		s.t.Errorf("the store has failed, on_failure: exit: the gateway goes on\n%s", s.gw.tail())
		s.gw.kill()
	}
}

// degraded: on_failure: degrade refuses on queue routes, and serves the others.
func (s *storm) degraded() {
	s.t.Helper()
	client := &http.Client{Timeout: clientTimeout}
	defer client.CloseIdleConnections()
	post := func(route string) (string, error) {
		body := s.w.body("0-0", smallest, false, s.fork())
		res, err := client.Post("http://"+s.gw.addr["web"]+"/"+route, "text/xml; charset=utf-8", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		return fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Gateway-Outcome")), nil
	}
	for route, want := range map[string]string{"echo": "200 ", "free": "503 "} {
		if got, err := post(route); err != nil || got != want {
			s.t.Errorf("the store has failed, route %s: got %q %v, want %q\n%s", route, got, err, want, s.gw.tail())
		}
	}
}
