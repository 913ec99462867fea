package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// uiFiles are the dashboard: what a browser gets as it stands here.
//
//go:embed ui
var uiFiles embed.FS

// uiPolicy is the Content Security Policy of the dashboard: nothing but its own
// files, no script or style in a page, no text that becomes markup, nobody who
// frames it.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// uiTypes are the media types of the files, by the end of their name. The system's
// own table is not asked: it may be wrong.
var uiTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// uiFile is a file of the dashboard.
type uiFile struct {
	kind, tag string
	octets    []byte
}

// ui are the files by the path that they are served at.
var ui = readUI()

func readUI() map[string]*uiFile {
	files := map[string]*uiFile{}
	entries, err := fs.ReadDir(uiFiles, "ui")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		b, err := uiFiles.ReadFile("ui/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		f := &uiFile{kind: uiTypes[path.Ext(e.Name())], tag: `"` + hex.EncodeToString(sum[:12]) + `"`, octets: b}
		files["/ui/"+e.Name()] = f
		if e.Name() == "index.html" {
			files["/"] = f
		}
	}
	return files
}

// isUI tells the paths of the dashboard. They tell nothing of the gateway and are
// served without a token: the page asks for it.
func isUI(p string) bool { return p == "/" || strings.HasPrefix(p, "/ui/") && ui[p] != nil }

// serveUI serves a file of the dashboard.
func serveUI(w http.ResponseWriter, r *http.Request) {
	f := ui[r.URL.Path]
	if f == nil {
		notHere(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", uiPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	_, _ = w.Write(f.octets)
}
