package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A Lab is where a self-test takes place: a folder of its own and processes of
// its own, so that no gateway in use and none of its data is touched.
type Lab struct {
	opt LabOptions

	mu       sync.Mutex
	children []*Child
	configs  int
}

// LabOptions are the settings of a [Lab].
type LabOptions struct {
	// Command starts this program; its own arguments are appended. Required.
	Command []string
	// Env is the environment of the processes. Default none.
	Env []string
	// Dir is an existing folder for configurations and stores. Required.
	Dir string
	// ServerCPUs are the processors that the processes may use. Default all.
	ServerCPUs []int
	// Patience is how long a start or a stop may take. Default 1m: a machine that is
	// to be called DISTURBED has to get there.
	Patience time.Duration
}

// NewLab returns a Lab.
func NewLab(opt LabOptions) *Lab {
	if opt.Patience == 0 {
		opt.Patience = time.Minute
	}
	return &Lab{opt: opt}
}

// Dir is the folder of the lab.
func (l *Lab) Dir() string { return l.opt.Dir }

// A Child is a process of a lab.
type Child struct {
	// Ready is what it has told when it was ready.
	Ready Ready
	// Began is when it was started.
	Began time.Time

	what     string // the command, for errors
	cmd      *exec.Cmd
	out      *os.File // its standard output
	stdin    io.Closer
	ask      func() // asks it to end in good order
	log      *tail
	done     chan struct{} // closed when it has ended
	err      error         // of Wait; valid once done is closed
	patience time.Duration
}

// Ready is the ready line of a gateway, or of a peer, which tells Address alone.
type Ready struct {
	Listeners []struct {
		Name     string `json:"name"`
		Protocol string `json:"protocol"`
		Address  string `json:"address"`
	} `json:"listeners"`
	Admin   string  `json:"admin"`
	Store   string  `json:"store"`
	Waiting uint64  `json:"waiting"`
	StartMS float64 `json:"start_ms"`
	Address string  `json:"address"`
}

// Listener returns the address of a listener by its name, "" if there is none.
func (r *Ready) Listener(name string) string {
	for _, l := range r.Listeners {
		if l.Name == name {
			return l.Address
		}
	}
	return ""
}

// Serve starts a gateway with a configuration, in a folder of its own to which
// relative paths in it are relative, and waits until it is ready.
func (l *Lab) Serve(ctx context.Context, yaml string) (*Child, error) {
	dir, err := l.Folder("gateway")
	if err != nil {
		return nil, err
	}
	return l.ServeIn(ctx, dir, yaml)
}

// ServeIn is Serve in a folder that exists, such as that of a gateway before.
func (l *Lab) ServeIn(ctx context.Context, dir, yaml string) (*Child, error) {
	c, err := l.Begin(dir, yaml)
	if err != nil {
		return nil, err
	}
	return c, c.await(ctx)
}

// Begin starts a gateway and does not wait until it is ready, nor reads what it
// says then.
func (l *Lab) Begin(dir, yaml string) (*Child, error) {
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return l.start(dir, "serve", "-c", file, "--json")
}

// Peer starts one of the small programs that play the other side of a measure
// (gateway bench peer KIND) and waits until it listens. It ends when its standard
// input is closed, so it cannot outlive this process.
func (l *Lab) Peer(ctx context.Context, kind string, args ...string) (*Child, error) {
	c, err := l.start(l.opt.Dir, append([]string{"bench", "peer", kind}, args...)...)
	if err != nil {
		return nil, err
	}
	// No signal besides: one that comes when the peer has begun to end, and no
	// longer listens for signals, would kill it.
	c.ask = func() { c.stdin.Close() }
	return c, c.await(ctx)
}

// Folder makes a new folder inside the lab's.
func (l *Lab) Folder(name string) (string, error) {
	l.mu.Lock()
	l.configs++
	dir := filepath.Join(l.opt.Dir, name+"-"+strconv.Itoa(l.configs))
	l.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return dir, nil
}

// start runs this program with args.
func (l *Lab) start(dir string, args ...string) (*Child, error) {
	command := append(append([]string{}, l.opt.Command...), args...)
	c := &Child{what: args[0], log: &tail{}, done: make(chan struct{}), patience: l.opt.Patience}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = dir, l.opt.Env, c.log
	c.ask = func() { terminate(c.cmd.Process) }
	dieWithParent(c.cmd)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	c.out, c.cmd.Stdout = out, in
	c.Began = time.Now()
	err = onCPUs(l.opt.ServerCPUs, c.cmd.Start)
	in.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("bench: start %s: %w", c.what, err)
	}
	go func() { // ends with the process, which Stop and Kill wait for
		c.err = c.cmd.Wait()
		out.Close()
		close(c.done)
	}()
	l.mu.Lock()
	l.children = append(l.children, c)
	l.mu.Unlock()
	return c, nil
}

// await returns once the process has told that it is ready; else it ends it.
func (c *Child) await(ctx context.Context) error {
	if err := c.readReady(ctx); err != nil {
		c.Kill()
		return fmt.Errorf("bench: start %s: %w\n%s", c.what, err, c.log)
	}
	return nil
}

// readReady reads the ready line. The process may die without one.
func (c *Child) readReady(ctx context.Context) error {
	// A deadline works on a pipe where the system can poll it; elsewhere the end
	// of the process ends the read.
	_ = c.out.SetReadDeadline(time.Now().Add(c.patience))
	stop := context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(c.out).ReadBytes('\n')
	if errors.Is(err, os.ErrClosed) || err == io.EOF {
		return errors.New("it has ended")
	}
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err := json.Unmarshal(line, &c.Ready); err != nil {
		return fmt.Errorf("its first line is no JSON: %.80q", line)
	}
	return nil
}

// PID is the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Log is the end of what the process has said on its standard error.
func (c *Child) Log() string { return c.log.String() }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stop ends the process in good order and returns once it is gone. A process that
// does not stop in time is killed, and that is an error, as is an exit code other
// than 0.
func (c *Child) Stop() error {
	select {
	case <-c.done:
		return nil // killed, or reported before
	default:
	}
	c.ask()
	select {
	case <-c.done:
		c.stdin.Close()
		if c.err != nil {
			return fmt.Errorf("bench: %w\n%s", c.err, c.log)
		}
		return nil
	case <-time.After(c.patience):
		c.Kill()
		return fmt.Errorf("bench: a process did not stop within %v\n%s", c.patience, c.log)
	}
}

// Kill ends the process at once (SIGKILL) and returns once it is gone.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
	c.stdin.Close()
}

// PIDs are the processes that are alive.
func (l *Lab) PIDs() (pids []int) {
	for _, c := range l.alive() {
		pids = append(pids, c.PID())
	}
	return pids
}

func (l *Lab) alive() (alive []*Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.children {
		select {
		case <-c.done:
		default:
			alive = append(alive, c)
		}
	}
	l.children = alive
	return append([]*Child(nil), alive...)
}

// Close stops every process that is still there.
func (l *Lab) Close() error {
	var errs []error
	for _, c := range l.alive() {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailLength = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailLength; over > 0 {
		t.b = bytes.Clone(t.b[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
