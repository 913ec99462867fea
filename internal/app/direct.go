package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"

	"soapway/config"
	"soapway/internal/field"
	"soapway/proxy"
)

// Direct is the routes and the handler of a configuration without listeners, store
// and admin, to be called inside the process: for the self-test. Its methods may be
// called from many goroutines.
type Direct struct {
	pools   pools
	table   *proxy.Table
	handler *proxy.Handler
}

// NewDirect makes one of cfg. Its error is config.Problems for what cfg is to blame
// for. The caller closes it.
func NewDirect(cfg *config.Config) (*Direct, error) {
	log := slog.New(slog.DiscardHandler)
	pools, _, table, problems := build(cfg, nil, nil, nil, log)
	if problems != nil {
		return nil, problems
	}
	return &Direct{pools: pools, table: table, handler: proxy.NewHandler(table, proxy.Options{Log: log})}, nil
}

// Close closes the nodes; no call may be under way.
func (d *Direct) Close() {
	for _, p := range d.pools {
		p.close()
	}
}

// Resolve is [proxy.Table.Resolve] of its table.
func (d *Direct) Resolve(host, target, action string) string {
	return d.table.Resolve(host, target, action, nil)
}

// directHeader is that of every message. It is never written to.
var directHeader = field.List{{Name: "Content-Type", Value: "text/xml; charset=utf-8"}, {Name: "SOAPAction", Value: `""`}}

// Call hands a SOAP 1.1 message to the handler, as a listener does, and returns the
// reply, which belongs to the caller. With a route, which target must fit, that is
// taken without a look at the others. An answer other than 200 is an error.
func (d *Direct) Call(ctx context.Context, route, target string, message []byte) ([]byte, error) {
	reply := d.handler.Serve(ctx, &proxy.Exchange{
		Route: route, Client: netip.AddrPortFrom(netip.IPv6Loopback(), 1), Method: http.MethodPost, Target: target, Host: "bench",
		Header: directHeader, Body: bytes.NewReader(message), Length: int64(len(message)),
	})
	if reply.Close != nil {
		defer reply.Close()
	}
	if reply.Status != http.StatusOK {
		return nil, fmt.Errorf("app: status %d", reply.Status)
	}
	if reply.Body == nil {
		return nil, nil
	}
	if reply.Length < 0 {
		return io.ReadAll(reply.Body)
	}
	out := make([]byte, reply.Length)
	_, err := io.ReadFull(reply.Body, out)
	return out, err
}
