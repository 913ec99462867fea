package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	pathHello = "/_site/v1/hello"
	pathBatch = "/_site/v1/batch"
	pathPull  = "/_site/v1/pull"

	typeBatch = "application/vnd.soapway.batch"
	typeJSON  = "application/json"

	// answerMost bounds an answer in JSON.
	answerMost = 1 << 20
	// answerWait is how long the far side may take for an answer once it has all of
	// a request, and slowest how many octets a second a request makes at least.
	answerWait = time.Minute
	slowest    = 4 << 10
)

// transport makes connections of a link. HTTP/2 asks after a peer that is silent, so
// that a link that swallows everything is noticed.
func transport(config *tls.Config) *http.Transport {
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   maxBatches,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second, WriteByteTimeout: 30 * time.Second},
		Protocols:             new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(true)
	return t
}

// errAnew: the far side is not the run that was greeted.
var errAnew = errors.New("relay: the far side has started anew")

// greetedRun is the run of the far side that was greeted last.
func (l *line) greetedRun() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// ungreet makes the next batch begin with a greeting, unless there was one since with
// another run than this.
func (l *line) ungreet(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == run {
		l.greeted = false
	}
}

// refusedError says that the far side cannot take a batch as it is.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "relay: the far side refuses the batch: " + e.reason }

// answerBody is the answer to a batch.
type answerBody struct {
	Site    string   `json:"site"`
	Results []Result `json:"results"`
}

// exchange sends a batch and returns a result for each item.
func (l *line) exchange(ctx context.Context, items []*Item) ([]Result, error) {
	from := head{l.hub.Site(), l.hub.opt.Home.Store()}
	size := int64(0)
	for _, it := range items {
		size += it.Size
	}
	l.underway(len(items))
	defer l.underway(-len(items))
	run := l.greetedRun()
	resp, err := l.postBatch(ctx, from, items, size, "zstd")
	if errors.Is(err, errDense) {
		resp, err = l.postBatch(ctx, from, items, size, "")
	}
	if err != nil {
		return nil, err
	}
	var a answerBody
	if err := l.read(ctx, resp, &a); err != nil {
		var status *statusError
		if errors.As(err, &status) && (status.code == http.StatusTooManyRequests || status.code == http.StatusServiceUnavailable) {
			return same(items, Result{Outcome: Later, Reason: status.Error(), RetryAfter: status.retry}), nil
		}
		if errors.As(err, &status) && status.code == http.StatusPreconditionFailed {
			l.ungreet(run)
			return nil, fmt.Errorf("%w: %w", errAnew, err)
		}
		if errors.As(err, &status) && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden) {
			return same(items, Result{Outcome: Denied, Reason: status.Error()}), nil
		}
		return nil, err
	}
	if err := check(items, a.Results); err != nil {
		return nil, err
	}
	return a.Results, nil
}

// postBatch sends a batch in a coding.
func (l *line) postBatch(ctx context.Context, from head, items []*Item, size int64, coding string) (*http.Response, error) {
	body, coding, source := l.encode(from, items, coding)
	defer body.Close()
	resp, err := l.post(ctx, pathBatch, typeBatch, coding, body, size)
	if err == nil && resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	// The far side may have answered that it broke off: why is known here.
	if e := source(); e != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, e
	}
	return resp, err
}

// same is the result of all items of a batch that was not taken.
func same(items []*Item, r Result) []Result {
	rs := make([]Result, len(items))
	for i, it := range items {
		if rs[i] = r; it.Behind && i > 0 {
			rs[i] = Result{Outcome: Behind}
		}
	}
	return rs
}

// check looks whether results can be those of a batch: one that is not can be no answer
// to anything.
func check(items []*Item, rs []Result) error {
	if len(rs) != len(items) {
		return fmt.Errorf("relay: %d results for %d items", len(rs), len(items))
	}
	for i, r := range rs {
		switch r.Outcome {
		case Stored, Duplicate:
			if items[i].Behind && i > 0 && !rs[i-1].Outcome.taken() {
				return fmt.Errorf("relay: an item is %s, and the one before it is %.20q", r.Outcome, rs[i-1].Outcome)
			}
		case Refused, Later, Denied, Behind:
		default:
			return fmt.Errorf("relay: %.20q is no outcome", r.Outcome)
		}
	}
	return nil
}

func (l *line) underway(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.underway += n
}

// errDense: a batch becomes so small that the far side would take it for a bomb.
var errDense = errors.New("relay: the batch is too dense")

// denseRatio is how many octets may become one, below what the far side bears.
const denseRatio = decodeRatio / 2

// encode writes a batch while it is read, in the coding if that can be; the function
// returns why its end was not written, if that is for a reason of ours.
func (l *line) encode(from head, items []*Item, coding string) (io.ReadCloser, string, func() error) {
	if len(items) > 1 || items[0].Open == nil {
		var plain bytes.Buffer
		_ = writeBatch(&plain, from, items) // into memory
		z := l.hub.encoders.Get().(*zstd.Encoder)
		defer l.hub.encoders.Put(z)
		packed := z.EncodeAll(plain.Bytes(), nil)
		if coding == "" || len(packed) > plain.Len() || plain.Len() > decodeFree/2 && plain.Len() > denseRatio*len(packed) {
			return memory{bytes.NewReader(plain.Bytes())}, "", func() error { return nil }
		}
		return memory{bytes.NewReader(packed)}, coding, func() error { return nil }
	}
	r, w := io.Pipe()
	failed := make(chan error, 1)
	l.hub.wg.Go(func() {
		err := l.writeTo(w, from, items, coding)
		failed <- err
		w.CloseWithError(err)
	})
	return pipe{r, failed}, coding, func() error {
		_ = r.CloseWithError(io.ErrClosedPipe)
		err := <-failed
		failed <- err
		var source errSource
		if errors.As(err, &source) || errors.Is(err, errDense) {
			return err
		}
		return nil
	}
}

func (l *line) writeTo(w io.Writer, from head, items []*Item, coding string) error {
	if coding == "" {
		return writeBatch(w, from, items)
	}
	z := l.hub.encoders.Get().(*zstd.Encoder)
	defer l.hub.encoders.Put(z)
	d := &dense{z: z, out: counted{w: w}}
	z.Reset(&d.out)
	err := writeBatch(d, from, items)
	if e := z.Close(); err == nil {
		err = e
	}
	d.out.w = io.Discard // for whoever has the encoder next
	return err
}

// dense writes through an encoder, and fails when too much becomes too little.
type dense struct {
	z   *zstd.Encoder
	in  int64
	out counted
}

type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (d *dense) Write(p []byte) (int, error) {
	n, err := d.z.Write(p)
	d.in += int64(n)
	// What the encoder holds back is less than its window, and comes with the flush.
	if err == nil && d.in > decodeFree/2 && d.in/denseRatio > d.out.n {
		if err = d.z.Flush(); err == nil && d.in/denseRatio > d.out.n {
			err = errDense
		}
	}
	return n, err
}

// newEncoder makes an encoder of batches; they are dear to make.
func newEncoder() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of these options it never is
	}
	return z
}

// memory is a body that is whole in memory.
type memory struct{ *bytes.Reader }

// Close does nothing.
func (memory) Close() error { return nil }

// pipe waits, when it is closed, until nobody writes into it any more.
type pipe struct {
	*io.PipeReader
	failed chan error
}

func (p pipe) Close() error {
	err := p.PipeReader.Close()
	p.failed <- <-p.failed
	return err
}

// post sends a request. size says how much it may be, for how long it may take.
func (l *line) post(ctx context.Context, path, typ, coding string, body io.Reader, size int64) (*http.Response, error) {
	wait := answerWait + time.Duration(size/slowest)*time.Second
	if l.rate.rate > 0 {
		wait += time.Duration(2*size/l.rate.rate) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errors.New("relay: no answer in time"))
	length := int64(-1)
	if b, ok := body.(interface{ Len() int }); ok {
		length = int64(b.Len())
	}
	limited := &slow{ctx, body, l.rate, func(n int) { l.count(n, 0) }}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.cfg.URL+path, io.NopCloser(limited))
	if err != nil {
		cancel()
		return nil, err
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", typ)
	if run := l.greetedRun(); run != "" && path == pathBatch {
		req.Header.Set(runField, run)
	}
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	began := time.Now()
	resp, err := l.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel()
		// In TLS 1.3 the far side refuses a certificate after the handshake has ended
		// here: often all that shows is that the connection broke.
		if e := l.cfg.Expires; !e.IsZero() && began.After(e) {
			err = fmt.Errorf("the certificate of this site has expired on %s: %w", e.UTC().Format(time.DateOnly), err)
		}
		return nil, err
	}
	if path != pathPull { // which waits for something to fetch
		l.mu.Lock()
		l.stats.rtt = time.Since(began)
		l.mu.Unlock()
	}
	resp.Body = &answer{resp.Body, cancel}
	return resp, nil
}

// answer ends its request when it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (a *answer) Close() error {
	defer a.cancel()
	return a.ReadCloser.Close()
}

func (l *line) count(out, in int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.out += uint64(out)
	l.stats.in += uint64(in)
}

// statusError is an answer of failure.
type statusError struct {
	code   int
	retry  int // seconds
	reason string
}

func (e *statusError) Error() string {
	s := "the far side answers " + strconv.Itoa(e.code)
	if e.reason != "" {
		s += ": " + e.reason
	}
	return s
}

// read reads an answer in JSON into v and closes it.
func (l *line) read(ctx context.Context, resp *http.Response, v any) error {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(&slow{ctx, resp.Body, l.rate, func(n int) { l.count(0, n) }}, answerMost))
	if err != nil {
		return err
	}
	typ, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		e := &statusError{code: resp.StatusCode}
		e.retry, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
		var p problem
		ours := typ == typeJSON && json.Unmarshal(b, &p) == nil && p.Error != ""
		if e.reason = oneLine(p.Error); ours && (e.code == http.StatusBadRequest || e.code == http.StatusRequestEntityTooLarge) {
			return &refusedError{e.reason}
		}
		return e
	}
	if typ != typeJSON {
		return fmt.Errorf("relay: the answer is %.40q and not of another gateway", typ)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("relay: the answer cannot be read: %w", err)
	}
	return nil
}

// problem is the body of an answer of failure.
type problem struct {
	Error string `json:"error"`
}
