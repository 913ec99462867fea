package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"sync"
	"time"

	"soapway/config"
	"soapway/proxy"
	"soapway/proxy/upstream"
	"soapway/queue/relay"
)

// forever stands for a time-out of none. It is far away but still far from the
// end of time.Duration, so that it can be added to the present.
const forever = 10 * 365 * 24 * time.Hour

// A pool is a backend with its nodes and their connections.
type pool struct {
	cfg     *config.Backend
	sizes   sizes
	files   [sha256.Size]byte // of the content of the files that it names
	backend *proxy.Backend
	watched bool               // see pools.watch
	checks  sync.WaitGroup     // the goroutine that checks the nodes
	cancel  context.CancelFunc // of it; nil if it does not run
}

// sizes are limits of messages that transports need to know.
type sizes struct {
	message int64 // of a frame
	buffer  int64
	header  int64 // of a head
}

// sizesOf returns the widest limits of any route: each route applies its own
// afterwards.
func sizesOf(cfg *config.Config) sizes {
	s := sizes{int64(cfg.Limits.MaxMessage), int64(cfg.Limits.Buffer), int64(cfg.Limits.HeaderBytes)}
	for i := range cfg.Routes {
		l := &cfg.Routes[i].Limits
		s.message = wider(s.message, int64(l.MaxMessage))
		s.buffer = wider(s.buffer, int64(l.Buffer))
		s.header = wider(s.header, int64(l.HeaderBytes))
	}
	if s.message < 0 {
		s.message = 1 << 62
	}
	return s
}

// wider returns the larger limit, where a negative one is unlimited.
func wider(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// pools are the backends of a configuration by the key of their place in it.
// The key tells a named backend from that of a route of the same name.
type pools map[string]*pool

// close ends the checks and closes every node.
func (p *pool) close() {
	if p.cancel != nil {
		p.cancel()
		p.checks.Wait()
	}
	for _, n := range p.backend.Nodes {
		n.Close()
	}
}

// without returns the pools of p that are not in q.
func (p pools) without(q pools) (gone []*pool) {
	for key, old := range p {
		if q[key] != old {
			gone = append(gone, old)
		}
	}
	return gone
}

// poolKey is the key of the backend of r, which is also its place in the
// configuration.
func poolKey(r *config.Route) string {
	if r.Backend != "" {
		return "backends." + r.Backend
	}
	return "routes." + r.Name + ".to"
}

// replyKey is the key of the backend of a place that answers may be sent to.
func replyKey(n config.NodeURL) string { return "replies." + n.Origin() }

// buildPools makes a pool for each backend of cfg, or takes that of old when
// nothing about it has changed. On an error nothing that it made is left open.
func buildPools(cfg *config.Config, old pools, hub *relay.Hub) (pools, config.Problems) {
	b := builder{hub: hub, cfg: cfg, old: old, made: pools{}, sizes: sizesOf(cfg)}
	for name, backend := range cfg.Backends {
		b.add("backends."+name, name, backend)
	}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if name, backend := cfg.BackendOf(r); r.Backend == "" {
			b.add(poolKey(r), name, backend)
		}
		for _, n := range r.ReplyNodes() {
			if b.made[replyKey(n)] == nil { // routes may share it
				b.add(replyKey(n), n.Origin(), cfg.ReplyBackend(n))
			}
		}
	}
	if len(b.problems) > 0 {
		for _, fresh := range b.made.without(old) {
			fresh.close()
		}
		return nil, b.problems
	}
	return b.made, nil
}

type builder struct {
	hub      *relay.Hub
	cfg      *config.Config
	old      pools
	made     pools
	sizes    sizes
	problems config.Problems
}

// wrong notes a problem at a key.
func (b *builder) wrong(key string, err error) {
	b.problems = append(b.problems, refusals(b.cfg, key, err)...)
}

func (b *builder) add(key, name string, c *config.Backend) {
	files := digest(c)
	if old := b.old[key]; old != nil && old.files == files && old.sizes == b.sizes && reflect.DeepEqual(old.cfg, c) {
		b.made[key] = old
		return
	}
	nodes, ok := b.nodes(key, c)
	check, err := checkOf(c.Health)
	if err != nil {
		b.wrong(key+".health.soap", err)
		ok = false
	}
	if !ok {
		for _, n := range nodes {
			n.Close()
		}
		return
	}
	b.made[key] = &pool{cfg: c, sizes: b.sizes, files: files, backend: &proxy.Backend{
		Name:        name,
		Nodes:       nodes,
		Policy:      policy(c, nodes),
		Weights:     weights(c.Nodes),
		Health:      healthOf(c),
		Check:       check,
		Places:      places(c),
		HashBy:      hashBy(c.HashBy),
		Connect:     c.ConnectTimeout.Or(forever),
		Answer:      c.Timeout.Or(forever),
		Headers:     reveal(c.Headers),
		Certificate: c.TLS != nil && c.TLS.Certificate != "" || leadsToSite(c),
		HostClient:  c.Host == config.HostClient,
		Follow:      c.Redirects == config.RedirectsFollow,
		Compress:    compressions[c.Compress],
	}}
}

// nodes makes the nodes of a backend; ok is false when a problem was noted.
func (b *builder) nodes(key string, c *config.Backend) (nodes []proxy.Node, ok bool) {
	var tlsOptions upstream.TLSOptions
	if c.TLS != nil {
		tlsOptions = upstream.TLSOptions{
			CA: string(c.TLS.CA), Certificate: string(c.TLS.Certificate), Key: string(c.TLS.Key),
			ServerName: c.TLS.ServerName, Insecure: c.TLS.Insecure,
		}
	}
	tlsConfig, err := upstream.TLSConfig(tlsOptions)
	if err != nil {
		b.wrong(key+".tls", err)
		return nil, false
	}
	ok = true
	o := nodeOptions{c: c, sizes: b.sizes, budget: upstream.NewBudget(countOr(c.MaxConnections, unbounded))}
	for i := range c.Nodes {
		u := c.Nodes[i].URL
		var n proxy.Node
		switch {
		case u.Scheme == config.NodeSite:
			n = &siteNode{b.hub, u}
		case u.Scheme == config.NodeBuiltin:
			n, err = upstream.NewBuiltin(u.Builtin)
		case u.Framed() && u.TLS():
			opt := o.framed(u)
			opt.TLS = tlsConfig
			n, err = upstream.NewFramed(opt)
		case u.Framed():
			n, err = upstream.NewFramed(o.framed(u))
		case u.Scheme == config.NodeHTTP || u.Scheme == config.NodeHTTPS:
			opt := o.http(u)
			opt.TLS = tlsConfig
			n, err = upstream.NewHTTP(opt)
		default:
			err = fmt.Errorf("no transport for %s nodes", u.Scheme)
		}
		if err != nil {
			b.wrong(key, err)
			ok = false
			continue
		}
		nodes = append(nodes, n)
	}
	return nodes, ok
}

// nodeOptions makes the options of one node.
type nodeOptions struct {
	c      *config.Backend
	sizes  sizes
	budget *upstream.Budget // of all nodes
}

func (o nodeOptions) http(u config.NodeURL) upstream.HTTPOptions {
	return upstream.HTTPOptions{
		URL:            u.String(),
		ConnectTimeout: o.c.ConnectTimeout.Or(forever),
		QueueWait:      o.c.QueueWait.Or(forever),
		Timeout:        o.c.Timeout.Or(forever),
		IdleTimeout:    o.c.IdleTimeout.Or(forever),
		Budget:         o.budget,
		HeaderBytes:    o.sizes.header,
		Dial:           dialing(o.c),
	}
}

func (o nodeOptions) framed(u config.NodeURL) upstream.FramedOptions {
	return upstream.FramedOptions{
		Address:        u.Address,
		Length:         u.Length,
		ConnectTimeout: o.c.ConnectTimeout.Or(forever),
		Timeout:        o.c.Timeout.Or(forever),
		IdleTimeout:    o.c.IdleTimeout.Or(forever),
		Budget:         o.budget,
		MaxReply:       o.sizes.message,
		Dial:           dialing(o.c),
	}
}

// dialing is how the nodes of a backend are connected to.
func dialing(c *config.Backend) upstream.DialOptions {
	opt := upstream.DialOptions{Resolve: time.Duration(c.Resolve)}
	if !c.Proxy.IsZero() {
		opt.Proxy, _ = url.Parse(c.Proxy.Reveal()) // config has read it as a URL
	}
	return opt
}

// unbounded is a number that stands for none.
const unbounded = 1 << 30

// countOr returns c, or unlimited if it is none.
func countOr(c config.Count, unlimited int) int {
	if c.None() || int64(c) > int64(unlimited) {
		return unlimited
	}
	return int(c)
}

func reveal(headers map[string]config.Secret) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	plain := make(map[string]string, len(headers))
	for name, secret := range headers {
		plain[name] = secret.Reveal()
	}
	return plain
}

// digest is over the content of the files that c names, so that a renewed
// certificate makes a new pool. Files that cannot be read count as empty; to
// complain about them is for who uses them.
func digest(c *config.Backend) (sum [sha256.Size]byte) {
	var files []config.File
	if t := c.TLS; t != nil {
		files = append(files, t.CA, t.Certificate, t.Key)
	}
	if c.Health != nil {
		files = append(files, c.Health.SOAP)
	}
	if len(files) == 0 {
		return sum
	}
	h := sha256.New()
	for _, f := range files {
		var data []byte
		if f != "" {
			data, _ = os.ReadFile(string(f))
		}
		fmt.Fprintf(h, "%d\n", len(data))
		h.Write(data)
	}
	h.Sum(sum[:0])
	return sum
}
