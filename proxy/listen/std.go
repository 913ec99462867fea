package listen

import (
	"log/slog"
	"net"
	"net/http"

	"soapway/proxy"
)

var _ engine = (*std)(nil)

// std is the engine of net/http.
type std struct {
	netHTTP
	opt HTTPOptions
	srv proxy.Server
}

func newStd(opt HTTPOptions, srv proxy.Server) *std {
	e := &std{opt: opt, srv: srv}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	e.init(&e.opt, e.serveHTTP, protocols, slog.LevelWarn)
	return e
}

func (e *std) serve(ln *bounded) error { return e.http.Serve(watched{ln}) }

// watched gives every connection its eye on lengths.
type watched struct{ *bounded }

func (w watched) Accept() (net.Conn, error) {
	c, err := w.accept()
	if err != nil {
		return nil, err
	}
	c.watch = new(lengths)
	return c, nil
}
