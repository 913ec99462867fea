package uitest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one window of a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	own     string   // what the page may ask for
	strange []string // what it must not do
}

// open starts a Chromium with an empty window. It skips the test where there is none.
func open(t *testing.T, own string) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless_shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed: apt-get install chromium (interop/setup.sh does)")
	}
	opt := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("disable-gpu", true), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		opt = append(opt, chromedp.NoSandbox)
	}
	alloc, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opt...)
	ctx, cancel := chromedp.NewContext(alloc)
	b := &browser{t: t, ctx: ctx, own: own}
	t.Cleanup(func() {
		cancel()
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.strange {
			t.Error(s)
		}
	})
	// The first call starts the browser, which lives as long as its context.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	b.do(call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}))
	return b
}

// call is a command of the protocol as an action.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// heard notes what must not happen.
func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.own+"/") && !strings.HasPrefix(u, "blob:"+b.own) {
			b.strange = append(b.strange, "the page asked for "+u)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.strange = append(b.strange, fmt.Sprintf("the browser logged: %s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		b.strange = append(b.strange, fmt.Sprintf("the page threw %s at %s:%d %v", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.strange = append(b.strange, fmt.Sprintf("the page wrote to the console: %s %v", e.Type, e.Args))
	}
}

// forget leaves out what was noted and has a text in it, which the test meant to
// happen.
func (b *browser) forget(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.strange[:0]
	for _, s := range b.strange {
		if strings.Contains(s, text) {
			n++
			continue
		}
		kept = append(kept, s)
	}
	b.strange = kept
	return n
}

// do runs actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v; the page says:\n%s", err, b.text())
	}
}

// text is what the page says.
func (b *browser) text() (s string) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	s, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return s
}

// value is the value of an expression in the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v; the page says:\n%s", expression, err, b.text())
	}
	return v
}

// sees waits until the page says a text.
func (b *browser) sees(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// until waits until an expression is true; while a page is being loaded it may throw.
func (b *browser) until(expression string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); !value[bool](b, "(() => { try { return Boolean("+expression+") } catch { return false } })()"); <-tick.C {
		if time.Now().After(end) {
			b.t.Fatalf("in %v not: %s; the page says:\n%s", patience, expression, b.text())
		}
	}
}

// click clicks what has a text: a link or a button, in the dialog if one is open.
func (b *browser) click(text string) {
	b.t.Helper()
	b.press(fmt.Sprintf(`[...(document.querySelector("dialog") || document).querySelectorAll("a, button")].find((e) => e.innerText.trim() === %q || e.innerText.trim().startsWith(%[1]q + "\n"))`, text))
}

// press clicks the element that an expression finds, with the mouse. The page may
// replace the element in the very moment: then it is looked for again.
func (b *browser) press(find string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		b.until(fmt.Sprintf(`((e) => e && (document.querySelector("[data-press]")?.removeAttribute("data-press"), e.setAttribute("data-press", ""), true))(%s)`, find))
		ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("[data-press]")))
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s cannot be clicked: %v; the page says:\n%s", find, err, b.text())
		}
	}
}

// looks takes a picture of the window, if pictures are asked for.
func (b *browser) looks(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(*pictures, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// looksAt takes a picture of one element, which is inside the window.
func (b *browser) looksAt(selector, name string) {
	b.t.Helper()
	b.looks(name)
	if *pictures == "" {
		return
	}
	file := filepath.Join(*pictures, name+".png")
	f, err := os.Open(file)
	if err != nil {
		b.t.Fatal(err)
	}
	whole, err := png.Decode(f)
	_ = f.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	box := value[[4]float64](b, fmt.Sprintf(`((r) => [r.left - 8, r.top - 8, r.right + 8, r.bottom + 8])(document.querySelector(%q).getBoundingClientRect())`, selector))
	part := image.Rect(int(box[0]), int(box[1]), int(box[2]), int(box[3])).Intersect(whole.Bounds())
	cut, ok := whole.(interface {
		SubImage(r image.Rectangle) image.Image
	})
	var out bytes.Buffer
	if !ok || part.Empty() {
		b.t.Fatalf("%s: nothing to see at %v", selector, part)
	}
	if err := png.Encode(&out, cut.SubImage(part)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// dark says which colours the system prefers.
func (b *browser) dark(is bool) {
	scheme := "light"
	if is {
		scheme = "dark"
	}
	b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}
