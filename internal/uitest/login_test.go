package uitest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLogin: the page asks for the token, says when it is wrong, keeps it in this tab
// alone, and forgets it. Nothing is shown before.
func TestLogin(t *testing.T) {
	g := run(t, `
admin: {address: "127.0.0.1:0", token: correct-horse, audit: audit.log}
routes: [{name: orders, match: {path: /orders}, to: ["http://127.0.0.1:1/"], delivery: queue}]
`)
	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/"))
	b.sees("Admin token")
	if text := b.text(); strings.Contains(text, "Queues") || strings.Contains(text, "orders") {
		t.Errorf("without the token the page says:\n%s", text)
	}
	b.looks("login")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=token]"), "wrong"))
	b.click("Sign in")
	b.sees("does not accept this token")
	b.do(chromedp.SetValue(chromedp.CSS("input[name=token]"), "correct-horse"))
	b.click("Sign in")
	b.sees("Needs attention")
	b.click("Queues")
	b.click("orders")
	b.click("Pause")
	b.sees("Pause orders?")
	b.looks("dialog")
	b.click("Pause")
	b.sees("orders is paused.")
	b.looks("paused")
	b.until(`document.cookie === "" && !JSON.stringify(localStorage).includes("horse")`)
	b.do(chromedp.Reload())
	b.sees("Resume")
	b.click("Sign out")
	b.sees("Admin token")
	b.until(`!JSON.stringify(sessionStorage).includes("horse")`)
	// A browser logs each answer of 401; nothing else may be there.
	if b.forget("status of 401") == 0 {
		t.Error("the browser has seen no 401")
	}
}

// TestHostileEnvelope: what a stranger has sent is text, wherever it appears, and
// passwords are not shown.
func TestHostileEnvelope(t *testing.T) {
	const evil = `&lt;img src=x onerror="document.title='owned'"&gt;&lt;script&gt;document.title='owned'&lt;/script&gt;`
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, fault(evil))
	}))
	defer backend.Close()
	g := run(t, fmt.Sprintf(`
routes: [{name: orders, match: {path: /orders}, to: ["%s/"], delivery: queue, order_by: "http:SOAPAction", redact: ["{urn:orders}iban"]}]
`, backend.URL))
	const wsse = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
	envelope := `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header><w:Security xmlns:w="` + wsse + `"><w:UsernameToken><w:Username>anna</w:Username><w:Password>hunter2</w:Password></w:UsernameToken></w:Security></soap:Header>` +
		`<soap:Body><o:Place xmlns:o="urn:orders"><o:iban>DE99hunter2</o:iban><o:note a="&lt;b&gt;'&quot;">` + evil + `<![CDATA[<svg onload=alert(1)>]]></o:note></o:Place></soap:Body></soap:Envelope>`
	if got := g.send(t, "/orders", envelope); got != http.StatusAccepted {
		t.Fatalf("status %d", got)
	}
	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/#/queues/orders?state=dead"))
	b.sees("permanent")
	b.press(`document.querySelector(".messages tbody th a")`)
	b.sees("Why it is here")
	b.sees("<svg onload=alert(1)>")
	b.sees("***")
	check := func() {
		t.Helper()
		b.until(`document.title.includes("Soapway") && !document.querySelector("main img, main script, main iframe, [onerror], [onload], pre svg")`)
		if text := b.text(); strings.Contains(text, "hunter2") {
			t.Errorf("a password is shown:\n%s", text)
		}
	}
	check()
	b.click("As received")
	b.sees(`&lt;img src=x onerror=`)
	check()
	b.click("Events")
	b.sees("dead letter")
	check()
}
