//go:build linux

package proxyversus

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The path that every proxy serves, and sends on as it is.
const path = "/orders"

// A peer is a proxy that runs: where it takes HTTP/1.1, and HTTP/2 by prior knowledge.
type peer struct {
	*process
	name   string
	h1, h2 string
	// oneway frames: in to the backend, and in to the echo service inside.
	frames, inside, tofr string
}

func startNginx(t testing.TB, backend string) *peer {
	t.Helper()
	bin, err := find("nginx")
	if err != nil {
		t.Skip("nginx is not installed: bash internal/proxyversus/setup.sh")
	}
	dir, at := t.TempDir(), free(t, 2)
	conf := write(t, dir, "nginx.conf", fmt.Sprintf(`daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000000;
	upstream backend { server %[4]s; keepalive 256; keepalive_requests 1000000000; }
	server {
		listen %[2]s;
		listen %[3]s http2;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
	}
}
`, dir, at[0], at[1], backend))
	args := []string{"-p", dir, "-c", conf}
	if os.Getuid() == 0 {
		args = append(args, "-g", "user root;")
	}
	return &peer{process: start(t, exec.Command(bin, args...), at...), name: "nginx", h1: at[0], h2: at[1]}
}

func startHaproxy(t testing.TB, backend string) *peer {
	t.Helper()
	bin, err := find("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: bash internal/proxyversus/setup.sh")
	}
	at := free(t, 2)
	conf := write(t, t.TempDir(), "haproxy.cfg", fmt.Sprintf(`global
	nbthread 1
	maxconn 4096
defaults
	mode http
	http-reuse always
	timeout connect 5s
	timeout client 60s
	timeout server 60s
frontend h1
	bind %s
	default_backend node
frontend h2
	bind %s proto h2
	default_backend node
backend node
	server node %s
`, at[0], at[1], backend))
	return &peer{process: start(t, exec.Command(bin, "-db", "-f", conf), at...), name: "haproxy", h1: at[0], h2: at[1]}
}

// The variables by which this test binary is told to be a ReverseProxy.
const (
	roleVariable    = "PROXYVERSUS_ROLE"
	backendVariable = "PROXYVERSUS_BACKEND"
	listenVariable  = "PROXYVERSUS_LISTEN"
)

func startReverseProxy(t testing.TB, backend string) *peer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := free(t, 1)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=reverseproxy", backendVariable+"="+backend, listenVariable+"="+at[0])
	return &peer{process: start(t, cmd, at...), name: "httputil.ReverseProxy", h1: at[0], h2: at[0]}
}

// buffers is the pool that ReverseProxy's documentation advises.
type buffers struct{ sync.Pool }

func (b *buffers) Get() []byte {
	if v, ok := b.Pool.Get().([]byte); ok {
		return v
	}
	return make([]byte, 32<<10)
}

//lint:ignore SA6002 the interface of httputil asks for a slice
func (b *buffers) Put(v []byte) { b.Pool.Put(v) }

// reverseProxy is what a Go programmer would write, with a pool that fits.
func reverseProxy() error {
	target := &url.URL{Scheme: "http", Host: os.Getenv(backendVariable)}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	transport.DisableCompression = true
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:  transport,
		BufferPool: &buffers{},
	}
	ln, err := net.Listen("tcp", os.Getenv(listenVariable))
	if err != nil {
		return err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return (&http.Server{Handler: proxy, Protocols: protocols}).Serve(ln)
}

// gatewayBinary builds the gateway once, unless there is one to be judged.
var gatewayBinary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("GATEWAY"); bin != "" {
		return filepath.Abs(bin)
	}
	dir, err := os.MkdirTemp("", "proxyversus-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/gateway")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/gateway: %w\n%s", err, out)
	}
	return bin, nil
})

func startGateway(t testing.TB, backend, frames string) *peer {
	t.Helper()
	bin, err := gatewayBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir, at := t.TempDir(), free(t, 5)
	conf := write(t, dir, "gateway.yaml", fmt.Sprintf(`listeners:
  - {name: web, address: "%[1]s", h2c: true}
  - {name: plant, address: "%[2]s", protocol: framed, route: frames}
  - {name: inside, address: "%[3]s", protocol: framed, route: inside}
routes:
  - {name: orders, match: {path: %[7]s}, to: ["http://%[5]s%[7]s"]}
  - {name: to-frames, match: {path: /frames}, to: ["framed://%[6]s"]}
  - {name: frames, match: none, to: ["framed://%[6]s"]}
  - {name: inside, match: none, to: ["builtin:echo"]}
store: {dir: %[8]s/data, durability: relaxed}
admin: {address: "%[4]s"}
log: {level: warn}
`, at[0], at[1], at[2], at[3], backend, frames, path, dir))
	p := start(t, exec.Command(bin, "serve", "-c", conf), at[:4]...)
	return &peer{process: p, name: "gateway", h1: at[0], h2: at[0], frames: at[1], inside: at[2], tofr: "/frames"}
}
