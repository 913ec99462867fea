package describe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mediaType splits a Content-Type field; text/xml where it does not tell.
func mediaType(field string) (typ, charset string) {
	typ, params, err := mime.ParseMediaType(field)
	if err != nil || typ == "" {
		typ = "text/xml"
	}
	return typ, params["charset"]
}

// filePrefix marks the locations that are files.
const filePrefix = "file:"

// Files has the documents beside the file that a route names.
type Files struct{ dir, name string }

// NewFiles returns the source of a file and what lies in its folder and below.
func NewFiles(file string) *Files { return &Files{filepath.Dir(file), filepath.Base(file)} }

// Root is the file itself.
func (f *Files) Root() Location { return filePrefix + Location(f.name) }

// settled is how long a file must have been left alone before its time and size
// tell that it is the same: an edit within one tick of the clock shows in neither.
const settled = 2 * time.Second

// Fetch reads a file, unless etag says that it is the one that was read before: an
// edit counts at once.
func (f *Files) Fetch(at Location, etag string) (*Copy, error) {
	root, err := os.OpenRoot(f.dir) // no name and no link leads out of it
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	defer root.Close()
	file, err := root.Open(filepath.FromSlash(strings.TrimPrefix(string(at), filePrefix)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, ErrNotFound
	}
	tag := fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
	if tag == etag {
		file.Close()
		return &Copy{Status: http.StatusNotModified}, nil
	}
	if time.Since(info.ModTime()) < settled {
		tag = ""
	}
	return &Copy{Status: http.StatusOK, ETag: tag, Body: file, Length: info.Size()}, nil
}

// beside resolves a relative reference between files.
func beside(from Location, ref *url.URL) (Location, bool) {
	name := path.Join(path.Dir(strings.TrimPrefix(string(from), filePrefix)), ref.Path)
	if ref.Path == "" || path.IsAbs(ref.Path) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", false
	}
	return filePrefix + Location(name), true
}

// readAll reads a document, at most MaxDocument octets; hint is how many it may
// have, not positive if that is not known.
func readAll(r io.Reader, hint int64) ([]byte, error) {
	var b bytes.Buffer
	if hint > 0 {
		b.Grow(int(min(hint, MaxDocument)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(r, MaxDocument+1))
	body := b.Bytes()
	if err == nil && len(body) > MaxDocument {
		err = ErrTooLarge
	}
	return body, err
}

// Follow resolves a reference between documents that are not on a backend: those
// of a folder, and those at hosts that may be asked.
func Follow(from Location, ref string, hosts []string) (Location, bool) {
	u, err := url.Parse(ref)
	if err != nil || u.User != nil || u.Opaque != "" {
		return "", false
	}
	u.Fragment, u.RawFragment = "", ""
	if !u.IsAbs() && u.Host == "" {
		if strings.HasPrefix(string(from), filePrefix) {
			return beside(from, u)
		}
		base, err := url.Parse(string(from))
		if err != nil || !base.IsAbs() || ref == "" || ref[0] == '#' {
			return "", false
		}
		u = base.ResolveReference(u)
	} else if !u.IsAbs() {
		base, err := url.Parse(string(from))
		if err != nil || !base.IsAbs() {
			return "", false
		}
		u.Scheme = base.Scheme
	}
	if !allowed(u, hosts) {
		return "", false
	}
	return Location(u.String()), true
}

// allowed reports whether a URL is at one of the hosts; a host without a port is
// meant with any.
func allowed(u *url.URL, hosts []string) bool {
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return false
	}
	return slices.ContainsFunc(hosts, func(h string) bool {
		return strings.EqualFold(h, u.Host) || strings.EqualFold(strings.Trim(h, "[]"), u.Hostname())
	})
}

// errAddress is why a host is not asked.
var errAddress = errors.New("describe: the name of the host leads to an address of this machine or its link")

// A Client fetches documents from hosts that the configuration names.
type Client struct {
	hosts []string
	http  *http.Client
}

const maxRedirects = 5

// NewClient returns a client for some hosts: a name or an address, with or
// without a port.
func NewClient(hosts []string) *Client {
	c := &Client{hosts: hosts}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 1
	transport.IdleConnTimeout = 10 * time.Second
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.DialContext = c.dial
	c.http = &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || !allowed(req.URL, c.hosts) || via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return c
}

func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: haste + time.Second, Control: control(host)}
	return d.DialContext(ctx, network, addr)
}

// control looks at the address that a name has led to, before it is connected
// to; nil where an address was given, or this machine by its name.
func control(host string) func(network, at string, _ syscall.RawConn) error {
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return nil
	}
	return func(_, at string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if a := ap.Addr().Unmap(); a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() {
			return errAddress
		}
		return nil
	}
}

// Fetch gets a document.
func (c *Client) Fetch(ctx context.Context, at Location, etag, modified string) (*Copy, error) {
	u, err := url.Parse(string(at))
	if err != nil || !allowed(u, c.hosts) {
		return nil, fmt.Errorf("describe: %s is at no host that may be asked", at)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	maps.Copy(req.Header, Ask(etag, modified))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return Answer(resp.StatusCode, resp.Header, resp.Body)
}

// Ask makes the fields of a request for a document.
func Ask(etag, modified string) http.Header {
	h := http.Header{"Accept": {"text/xml, application/wsdl+xml, application/xml, */*;q=0.5"}, "User-Agent": {"soapway"}}
	switch {
	case etag != "":
		h["If-None-Match"] = []string{etag}
	case modified != "":
		h["If-Modified-Since"] = []string{modified}
	}
	return h
}

// Answer takes the answer to a request for a document, and its body, which may be
// nil: closing it becomes the business of the Copy.
func Answer(status int, header http.Header, body io.ReadCloser) (*Copy, error) {
	c := &Copy{
		Status: status, Type: header.Get("Content-Type"),
		ETag: header.Get("ETag"), Modified: header.Get("Last-Modified"), Body: body,
	}
	switch {
	case status == http.StatusNotModified:
		return c, nil
	case status != http.StatusOK:
		c.close()
		e := &StatusError{Status: status, Header: http.Header{}}
		for _, k := range []string{"Www-Authenticate", "Retry-After", "Allow"} {
			if v := header.Values(k); len(v) > 0 {
				e.Header[k] = v
			}
		}
		return nil, e
	}
	if body == nil {
		return nil, ErrNotFound
	}
	c.Length, _ = strconv.ParseInt(header.Get("Content-Length"), 10, 64) // or it is not known
	return c, nil
}
