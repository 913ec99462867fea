package admin

import (
	"bufio"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// fileType is the media type of files of exported messages, see package bundle.
const fileType = "application/x-tar"

// patience is how long the other side of a file may be silent.
const patience = time.Minute

// ExportOptions say how a file is written.
type ExportOptions struct {
	Version string // of the gateway
	// Whole writes messages as they are. Else what people must not see is masked
	// in them, and a message that is masked cannot be imported.
	Whole bool
}

// Exported is what has come of an export.
type Exported struct {
	Count   int // messages in the file
	LeftOut int // messages that cannot be read; the end of the file names them
	Masked  int // messages in the file that are masked
}

// Imported is the answer of POST /queues/import.
type Imported struct {
	Count int `json:"count"` // messages that are here now and were not before
	Known int `json:"known"` // messages that are, or were, here already
	// Masked are messages that the file has only a masked copy of: they were passed over.
	Masked int `json:"masked"`
}

// download is an answer that is written while it is made.
type download struct {
	name  string
	write func(io.Writer) error
}

func (a *api) export(c *call) (any, error) {
	f, err := c.filter()
	if err != nil {
		return nil, err
	}
	if err := a.sure(f.Route); err != nil {
		return nil, err
	}
	o := ExportOptions{Version: a.version}
	switch whole := c.query.Get("whole"); {
	case whole == "true":
		o.Whole = true
	case c.query.Has("whole") && whole != "false":
		return nil, refusef(kindParameter, "whole must be true or false, got %s", quote(whole))
	}
	return &download{fileName(f.Route), func(w io.Writer) error {
		done, err := a.queue().Export(c.r.Context(), f, o, w)
		what := append([]any{"route", f.Route, "count", done.Count, "left_out", done.LeftOut, "masked", done.Masked, "whole", o.Whole}, f.words()...)
		a.changed(c, "export", err, what...)
		return err
	}}, nil
}

// fileName is what a browser may save an export of a route as.
func fileName(route string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, route)
	return name + ".tar"
}

// answer writes the file. One that breaks off ends the connection, so that the
// other side does not take it for whole; the file itself tells that as well.
func (d *download) answer(a *api, w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", fileType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.name}))
	if r.Method == http.MethodHead {
		return
	}
	out := &patient{w: w, control: http.NewResponseController(w)}
	buffered := bufio.NewWriterSize(out, 64<<10)
	err := d.write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case err == nil:
	case !out.wrote:
		h.Del("Content-Disposition")
		asRefusal(err).answer(w, r)
	default:
		panic(http.ErrAbortHandler)
	}
}

// patient gives every write, or read, its own time.
type patient struct {
	w       io.Writer
	r       io.Reader
	control *http.ResponseController
	wrote   bool
}

func (p *patient) Write(b []byte) (int, error) {
	p.wrote = true
	_ = p.control.SetWriteDeadline(time.Now().Add(patience))
	return p.w.Write(b)
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(patience))
	return p.r.Read(b)
}

// open makes the body of a call its file.
func (c *call) open(w http.ResponseWriter) error {
	if t, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || t != fileType {
		return refusef(kindType, "send the file as %s", fileType)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(bulkTimeout))
	c.file = &patient{r: c.r.Body, control: control}
	return nil
}

func (a *api) importFile(c *call) (any, error) {
	to := c.query.Get("to")
	if to == "" && c.query.Has("to") {
		return nil, refusef(kindParameter, "to is empty: leave it out to keep the routes of the file")
	}
	if !a.queue().Loaded() {
		return nil, refusef(kindLoading, "the store is still being read, so that not all messages are known")
	}
	done, err := a.queue().Import(c.r.Context(), c.file, to)
	what := []any{"count", done.Count, "known", done.Known, "masked", done.Masked}
	if to != "" {
		what = append(what, "to", to)
	}
	a.changed(c, "import", err, what...)
	if err != nil {
		// A client that is still sending may not look at the answer before.
		_, _ = io.Copy(io.Discard, io.LimitReader(c.file, maxDrained))
		e := *asRefusal(err)
		e.count = done.Count
		return nil, &e
	}
	return done, nil
}

// maxDrained is how much is read of a file after an error in it.
const maxDrained = 256 << 20
