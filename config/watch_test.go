package config

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// startWatch runs Watch over files and returns a channel of its calls. The
// polling is so slow that only events of the system count, unless poll is set.
func startWatch(t *testing.T, files []string, opt WatchOptions, next func() []string) <-chan struct{} {
	t.Helper()
	if opt.poll == 0 {
		opt.poll = time.Hour
	}
	if opt.quiet == 0 {
		opt.quiet = 20 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls, done := make(chan struct{}, 100), make(chan error, 1)
	// The first event tells that the watch is on: a file of the test's own in
	// the list is written until it does.
	ready := filepath.Join(t.TempDir(), "ready")
	write(t, ready, "0")
	go func() {
		done <- Watch(ctx, append(slices.Clone(files), ready), opt, func() []string {
			calls <- struct{}{}
			if next != nil {
				return next()
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Watch: %v", err)
			}
		case <-time.After(patience):
			t.Error("Watch does not end")
		}
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for on := false; !on; {
		select {
		case <-calls:
			on = true
		case <-tick.C:
			write(t, ready, time.Now().String())
		case <-time.After(patience):
			t.Fatal("Watch does not start")
		}
	}
	// What was written meanwhile may cause more calls; they end with quiet.
	for settled := false; !settled; {
		select {
		case <-calls:
		case <-time.After(200 * time.Millisecond):
			settled = true
		}
	}
	return calls
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

func wait(t *testing.T, calls <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-calls:
	case <-time.After(patience):
		t.Fatalf("%s: not told", what)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "sub", "token")
	if err := os.Mkdir(filepath.Dir(secret), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "a")
	write(t, secret, "a")
	calls := startWatch(t, []string{file, secret}, WatchOptions{}, nil)

	write(t, file, "b")
	wait(t, calls, "written in place")

	write(t, file+".new", "c")
	rename(t, file+".new", file)
	wait(t, calls, "replaced by rename")

	write(t, secret, "b")
	wait(t, calls, "a secret")

	rename(t, file, file+"~") // as editors do
	write(t, file, "d")
	wait(t, calls, "moved away and written anew")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wait(t, calls, "removed")
	write(t, file, "e")
	wait(t, calls, "back again")
}

// Others' files in the same folder are nobody's business.
func TestWatchOthers(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "access.log")
	write(t, file, "a")
	calls := startWatch(t, []string{file}, WatchOptions{}, nil)
	for range 100 {
		write(t, other, "x")
	}
	// The events of one folder come in order: the call is for the last one.
	write(t, file, "b")
	wait(t, calls, "the file after others")
	select {
	case <-calls:
		t.Error("called for a file that is not watched")
	case <-time.After(100 * time.Millisecond):
	}
}

// Kubernetes mounts a folder of links to ..data/NAME, and ..data is a link
// that it turns to a new folder.
func TestWatchKubernetes(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"..1", "..2", "..3"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "gateway.yaml"), version)
	}
	symlink(t, "..1", filepath.Join(dir, "..data"))
	file := filepath.Join(dir, "gateway.yaml")
	symlink(t, filepath.Join("..data", "gateway.yaml"), file)
	calls := startWatch(t, []string{file}, WatchOptions{}, nil)
	for _, version := range []string{"..2", "..3"} {
		symlink(t, version, filepath.Join(dir, "..tmp"))
		rename(t, filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))
		wait(t, calls, "turned to "+version)
		if data, err := os.ReadFile(file); err != nil || string(data) != version {
			t.Fatalf("read %q, %v", data, err)
		}
	}
	// The folder that is used now is watched too.
	write(t, filepath.Join(dir, "..3", "gateway.yaml"), "more")
	wait(t, calls, "written behind the links")
}

// A folder that is put in the place of another is watched anew.
func TestWatchFolderReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a watched folder cannot be moved on Windows")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	for _, d := range []string{conf, conf + ".new"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d, "gateway.yaml"), d)
	}
	file := filepath.Join(conf, "gateway.yaml")
	calls := startWatch(t, []string{file}, WatchOptions{quiet: 100 * time.Millisecond}, nil)
	rename(t, conf, conf+".old")
	rename(t, conf+".new", conf)
	wait(t, calls, "the folder was replaced")
	write(t, file, "more")
	wait(t, calls, "written in the new folder")
}

// What changed returns is watched from then on, and what it leaves out is not.
func TestWatchNewFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	file, before, after := filepath.Join(dir, "gateway.yaml"), filepath.Join(elsewhere, "a"), filepath.Join(dir, "b")
	for _, f := range []string{file, before, after} {
		write(t, f, "1")
	}
	next := make(chan []string, 1)
	calls := startWatch(t, []string{file, before}, WatchOptions{}, func() []string {
		select {
		case files := <-next:
			return files
		default:
			return nil
		}
	})
	write(t, before, "2")
	wait(t, calls, "the old file")
	next <- []string{file, after}
	write(t, file, "2")
	wait(t, calls, "the configuration")
	write(t, after, "2")
	wait(t, calls, "the new file")
}

// What the system does not tell of is found by looking.
func TestWatchPoll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	write(t, file, "a")
	w := &watch{opt: WatchOptions{poll: 10 * time.Millisecond}.withDefaults()}
	calls := make(chan struct{}, 10)
	w.changed = func() []string { calls <- struct{}{}; return nil }
	w.set([]string{file, filepath.Join(dir, "later")})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx, nil, nil) }()
	write(t, file, "longer")
	wait(t, calls, "another size")
	write(t, filepath.Join(dir, "later"), "x")
	wait(t, calls, "a file that was not there")
	write(t, file+".new", "longer")
	rename(t, file+".new", file)
	wait(t, calls, "another file")
	cancel()
	<-done
}

// A change between the load and the start of the watch is not lost.
func TestWatchSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, "listeners: [{address: \":0\"}]\n")
	cfg, err := Load(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "listeners: [{address: \":0\"}]\ndrain: 5s\n")
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		done <- Watch(ctx, cfg.Files(), WatchOptions{Since: cfg}, func() []string { calls <- struct{}{}; return nil })
	}()
	wait(t, calls, "changed before Watch")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Watch: %v", err)
	}
}

// The waiting itself, on a clock that stands still.
func TestWatchQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, errs := make(chan fsnotify.Event), make(chan error)
		called, start := make(chan time.Time, 100), time.Now()
		w := &watch{opt: WatchOptions{poll: time.Hour}.withDefaults()}
		w.set([]string{"f"}) // there is no such file, which does not matter here
		w.changed = func() []string {
			called <- time.Now()
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx, events, errs) }()
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			var got []time.Duration
			for len(called) > 0 {
				got = append(got, (<-called).Sub(start))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: called at %v, want %v", what, got, want)
			}
			start = time.Now()
		}
		const ms = time.Millisecond
		event := fsnotify.Event{Name: "f", Op: fsnotify.Write}

		events <- event
		time.Sleep(99 * ms)
		expect("before the quiet is over")
		time.Sleep(1 * ms)
		expect("one event", 1*ms)

		events <- event
		time.Sleep(60 * ms)
		events <- event
		time.Sleep(time.Second)
		expect("two events, one call", 160*ms)

		events <- fsnotify.Event{Name: "g", Op: fsnotify.Write}
		time.Sleep(time.Second)
		expect("another file")

		for range 30 { // a file that never rests
			events <- event
			time.Sleep(50 * ms)
		}
		time.Sleep(time.Second)
		expect("events without end", 1000*ms, 1550*ms)

		errs <- fsnotify.ErrEventOverflow
		time.Sleep(time.Second)
		expect("lost events", 100*ms)

		errs <- os.ErrPermission
		time.Sleep(time.Second)
		expect("another error")

		events <- event
		cancel()
		<-done
		expect("after the end")
	})
}
