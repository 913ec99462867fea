package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"soapway/queue"
)

// Request is one request of another site below /_site/v1/.
type Request struct {
	Method string
	Path   string // without a query
	Header http.Header
	Body   io.Reader
}

// Response is the answer to a Request.
type Response struct {
	Status int
	Header http.Header
	Body   io.ReadCloser // nil for none; to be closed
	Length int64         // of Body; -1 if it is not known
}

// Serve answers a request of a peer that the mount has proved; it never returns nil.
// A fetch takes up to [Options.Wait].
func (h *Hub) Serve(ctx context.Context, peer Peer, r *Request) *Response {
	if r.Method != http.MethodPost {
		resp := refuse(http.StatusMethodNotAllowed, "")
		resp.Header.Set("Allow", http.MethodPost)
		return resp
	}
	ways := map[string]struct {
		typ  string
		call func(context.Context, Peer, *Request) *Response
	}{
		pathHello: {typeJSON, h.serveHello}, pathBatch: {typeBatch, h.serveBatch}, pathPull: {typeJSON, h.servePull},
	}
	way, ok := ways[r.Path]
	if !ok {
		return refuse(http.StatusNotFound, "there is nothing here")
	}
	typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	coding := strings.ToLower(r.Header.Get("Content-Encoding"))
	if typ != way.typ || coding != "" && coding != "identity" && (coding != "zstd" || typ == typeJSON) {
		return refuse(http.StatusUnsupportedMediaType, "wants "+way.typ)
	}
	if h.opt.Home.Store() == "" {
		resp := refuse(http.StatusServiceUnavailable, "there is no store")
		resp.Header.Set("Retry-After", "5")
		return resp
	}
	return way.call(ctx, peer, r)
}

func refuse(status int, reason string) *Response {
	b, err := json.Marshal(problem{reason})
	return jsonAnswer(status, b, err)
}

func jsonAnswer(status int, b []byte, err error) *Response {
	if err != nil { // of what is answered here there never is one
		return &Response{Status: http.StatusInternalServerError, Header: http.Header{}}
	}
	return &Response{Status: status, Header: http.Header{"Content-Type": {typeJSON}}, Body: memory{bytes.NewReader(b)}, Length: int64(len(b))}
}

// greeting is what two sites tell each other.
type greeting struct {
	Site  string     `json:"site"`
	Store string     `json:"store"`
	Marks []markBody `json:"marks,omitempty"`
	// Run names the run of the process that answers.
	Run string `json:"run,omitempty"`
}

type markBody struct {
	Epoch uint64 `json:"epoch"`
	Link  string `json:"link"`
	Class uint8  `json:"class,omitempty"`
	// N is the highest number that was given, or that has come.
	N    uint64 `json:"n"`
	Gaps int    `json:"gaps,omitempty"` // below it
}

// serveHello exchanges marks with a site that begins to send.
//
// Before the log is read to its end there is no answer: the marks would be too few, and
// the batch that follows would hide what is missing for good.
func (h *Hub) serveHello(ctx context.Context, peer Peer, r *Request) *Response {
	var g greeting
	b, err := io.ReadAll(io.LimitReader(r.Body, answerMost))
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the greeting cannot be read")
	}
	origin, resp := h.origin(peer, head{g.Site, g.Store})
	if resp != nil {
		return resp
	}
	own := greeting{Site: h.Site(), Store: h.opt.Home.Store(), Run: h.run}
	seen, whole := h.opt.Home.SeenMarks(ctx, origin)
	if !whole {
		resp := refuse(http.StatusServiceUnavailable, "the index of the store is being rebuilt")
		resp.Header.Set("Retry-After", "2")
		return resp
	}
	for _, m := range seen {
		own.Marks = append(own.Marks, markBody{m.Epoch, m.Link, m.Class, m.Top, m.Gaps})
	}
	h.opt.Log.Info("another site is here", "site", peer.Site, "store", g.Store, "subject", peer.Subject, "client", peer.Address)
	h.opt.Home.Heard(peer.Site)
	b, err = json.Marshal(own)
	return jsonAnswer(http.StatusOK, b, err)
}

// origin is how the labels of a peer's store are known here. A peer that calls itself
// otherwise than its certificate does is refused.
func (h *Hub) origin(peer Peer, from head) (string, *Response) {
	if from.site != peer.Site {
		h.opt.Log.Error("a site gives itself another name than its certificate", "site", peer.Site, "claims", fmt.Sprintf("%.60q", from.site), "subject", peer.Subject, "client", peer.Address)
		h.found(Finding{Kind: FoundForged, Peer: peer, Reason: fmt.Sprintf("it calls itself %.60q", from.site)})
		return "", refuse(http.StatusForbidden, "this certificate belongs to site "+peer.Site)
	}
	origin := peer.Site + "/" + from.store
	probe := queue.Label{Stream: queue.Stream{Origin: origin, Link: "x"}, N: 1}
	if from.store == "" || strings.Contains(from.store, "/") || probe.Validate() != nil {
		return "", refuse(http.StatusBadRequest, "the id of the store is none")
	}
	return origin, nil
}

// runField names the run of the far side that a batch is for: the one that was greeted.
// So marks are exchanged before a batch, also where a restart or a restore was so quick
// that no exchange has failed.
const runField = "Gateway-Run"

// serveBatch takes a batch.
func (h *Hub) serveBatch(ctx context.Context, peer Peer, r *Request) *Response {
	if run := r.Header.Get(runField); run != "" && run != h.run {
		return refuse(http.StatusPreconditionFailed, "this gateway has started anew: greet it first")
	}
	body, err := decoded(r.Body, r.Header.Get("Content-Encoding"))
	if err != nil {
		return refuse(http.StatusBadRequest, oneLine(err.Error()))
	}
	defer body.Close()
	results, resp := h.takeBatch(ctx, peer, body)
	if resp != nil {
		return resp
	}
	b, err := json.Marshal(answerBody{h.Site(), results})
	return jsonAnswer(http.StatusOK, b, err)
}

// takeBatch takes the items of a batch and returns once each is durable or refused,
// or an answer for all of it.
func (h *Hub) takeBatch(ctx context.Context, peer Peer, body io.Reader) ([]Result, *Response) {
	r, err := readBatch(body)
	if err != nil {
		return nil, h.badBatch(peer, err)
	}
	origin, resp := h.origin(peer, r.from)
	if resp != nil {
		return nil, resp
	}
	var results []Result
	var told findings
	defer func() {
		for _, f := range told {
			h.found(f)
		}
	}()
	take := func(items []*Item) {
		from := len(results)
		results = h.takeAll(ctx, peer, items, results)
		for i, it := range items {
			told.add(peer, it, results[from+i])
		}
	}
	var together []*Item
	for {
		it, err := r.next()
		if it != nil {
			it.Label.Origin = origin
			if it.Open == nil {
				together = append(together, it)
				continue
			}
		}
		if err != nil && err != io.EOF {
			return nil, h.badBatch(peer, err)
		}
		// What is held in memory is taken at once, so that it shares the sync; a large
		// body is read while it is stored.
		take(together)
		together = nil
		if err == io.EOF {
			h.countTaken(peer.Site, results)
			return results, nil
		}
		take([]*Item{it})
	}
}

func (h *Hub) badBatch(peer Peer, err error) *Response {
	var bomb *bombError
	switch {
	case errors.As(err, &bomb):
		h.opt.Log.Error("a batch of another site is refused", "site", peer.Site, "subject", peer.Subject, "client", peer.Address, "err", err)
		h.found(Finding{Kind: FoundBomb, Peer: peer, Reason: err.Error()})
		return refuse(http.StatusRequestEntityTooLarge, oneLine(err.Error()))
	case errors.Is(err, ErrBatch), errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, zstd.ErrCRCMismatch):
		h.opt.Log.Warn("a batch of another site cannot be read", "site", peer.Site, "subject", peer.Subject, "client", peer.Address, "err", err)
		if errors.Is(err, io.ErrUnexpectedEOF) { // as any line that breaks leaves it
			return refuse(http.StatusServiceUnavailable, "the batch broke off")
		}
		h.found(Finding{Kind: FoundBroken, Peer: peer, Reason: err.Error()})
		return refuse(http.StatusBadRequest, oneLine(err.Error()))
	}
	h.opt.Log.Info("a batch of another site broke off", "site", peer.Site, "client", peer.Address, "err", err)
	return refuse(http.StatusServiceUnavailable, "the batch broke off")
}

// takeAll takes items at once, and appends their results to those of the items before
// them in the batch.
func (h *Hub) takeAll(ctx context.Context, peer Peer, items []*Item, results []Result) []Result {
	var allowed []*Item
	var places []int // of allowed, in results
	from, behind := len(results), make([]bool, len(items))
	follows := false // the last of allowed is of the same key
	for k, it := range items {
		i := len(results)
		behind[k] = it.Behind
		if !it.Behind {
			follows = false
		}
		r := Result{Outcome: Behind}
		// One that is allowed has no outcome yet.
		if !it.Behind || results[i-1].Outcome == "" || results[i-1].Outcome.taken() {
			r = h.admit(peer, it)
		}
		results = append(results, r)
		if r.Outcome == "" {
			it.Behind, follows = follows, true
			allowed, places = append(allowed, it), append(places, i)
		}
	}
	if len(allowed) == 0 {
		return results
	}
	for k, r := range h.opt.Home.Take(ctx, peer, allowed) {
		r.Reason = oneLine(r.Reason)
		results[places[k]] = r
	}
	for k := range items { // what stands behind one that was not taken comes again with it
		if i := from + k; behind[k] && !results[i-1].Outcome.taken() {
			results[i] = Result{Outcome: Behind}
		}
	}
	return results
}

// admit returns why an item is not for this site to take from the peer; nothing if it is.
func (h *Hub) admit(peer Peer, it *Item) Result {
	site := h.Site()
	last := len(it.Trace) - 1
	switch {
	case it.Trace[last] != peer.Site:
		h.opt.Log.Error("an item claims to come from another site", "site", peer.Site, "claims", it.Trace[last], "id", it.ID, "subject", peer.Subject)
		return Result{Outcome: Refused, Reason: "its last site is not the one that sends it", kind: FoundForged}
	case slices.Contains(it.Trace, site):
		h.opt.Log.Error("an item has gone in a circle", "site", peer.Site, "id", it.ID, "route", it.Route, "trace", it.Trace)
		return Result{Outcome: Refused, Reason: "loop: it has passed site " + site + " before", kind: FoundLoop}
	case len(it.Trace) >= MaxTrace:
		return Result{Outcome: Refused, Reason: "loop: it has passed " + strconv.Itoa(len(it.Trace)) + " sites", kind: FoundLoop}
	case !it.Reply && !slices.Contains(peer.Routes, it.Route):
		h.opt.Log.Warn("a site sends to a route that is not for it", "site", peer.Site, "subject", peer.Subject, "route", fmt.Sprintf("%.60q", it.Route))
		return Result{Outcome: Denied, Reason: "site " + peer.Site + " may not send to route " + it.Route}
	}
	return Result{}
}

// countTaken counts what has come from a site.
func (h *Hub) countTaken(site string, results []Result) {
	l := h.line(site)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range results {
		l.stats.got(r.Outcome)
	}
}

// bombError says that a body decompresses to too much.
type bombError struct{ in, out int64 }

func (e *bombError) Error() string {
	return fmt.Sprintf("relay: %d octets decompress to more than %d", e.in, e.out)
}

const (
	// decodeRatio is how many octets one octet may become, beyond the first MiB.
	decodeRatio = 200
	decodeFree  = 1 << 20
	// decodeWindow bounds the memory of a decoder.
	decodeWindow = 8 << 20
)

// decoded reads a body without its coding.
func decoded(r io.Reader, coding string) (io.ReadCloser, error) {
	if !strings.EqualFold(coding, "zstd") {
		return io.NopCloser(r), nil
	}
	in := &counting{r: r}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(decodeWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return &guarded{z: z, in: in}, nil
}

type counting struct {
	r   io.Reader
	n   int64
	err error // the last
}

func (c *counting) Read(p []byte) (n int, err error) {
	n, c.err = c.r.Read(p)
	c.n += int64(n)
	return n, c.err
}

// guarded ends a body that becomes far larger than it was.
type guarded struct {
	z   *zstd.Decoder
	in  *counting
	out int64
}

func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	if g.out += int64(n); g.out > decodeFree && g.out > decodeRatio*g.in.n {
		return 0, &bombError{g.in.n, g.out}
	}
	if cut := g.in.err; err != nil && cut != nil && cut != io.EOF {
		return n, cut // it never came, and says nothing of the batch
	}
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrBatch, err)
	}
	return n, err
}

// Close lets go of the decoder.
func (g *guarded) Close() error {
	g.z.Close()
	return nil
}
