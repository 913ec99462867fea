package uitest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSelfTest: an operator reads what a self-test does to the machine, starts one,
// watches it, and has its report; another one she cancels. No figure of it is looked
// at: the machine may be busy.
func TestSelfTest(t *testing.T) {
	g := run(t, `
routes: [{name: orders, match: {path: /orders}, to: ["http://127.0.0.1:1/"], delivery: queue}]
`)
	b := open(t, g.admin)
	b.do(chromedp.Navigate(g.admin + "/"))
	b.click("Self-test")
	b.sees("It loads this machine.")
	b.sees("No reports yet")
	b.looks("selftest-start")
	b.press(`document.querySelector("input[value=limits]")`)
	b.click("Start…")
	b.sees("loads every processor of this machine")
	b.click("Start")
	b.sees("Report of the self-test") // it was watched to its end
	b.sees("TCP round trip between two processes")
	b.looks("selftest-limits")
	b.until(`!document.querySelector("main iframe, main [style]")`)
	b.click("Self-test")
	b.until(`document.querySelectorAll("tbody tr").length === 1`)

	b.press(`document.querySelector("input[value=all]")`)
	b.click("Start…")
	b.click("Start")
	b.sees("Running: Everything")
	b.until(`!document.querySelector("[role=log]").innerText.includes("It begins")`)
	b.looks("selftest-running")
	b.click("Cancel…")
	b.sees("What it has measured so far is lost.")
	b.click("Cancel the self-test")
	b.sees("cancelled")
	b.sees("Start a self-test")
	b.until(`document.querySelectorAll("tbody tr").length === 2`)
	b.click("Events")
	b.sees("self-test limits has started")
	b.sees("self-test limits is over")
	b.sees("selftest-cancel")
	b.looks("selftest-events")
}
