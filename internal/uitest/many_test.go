package uitest

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"soapway/queue"
)

// bury fills a store with dead letters. Every thousandth is of another operation, and
// one has a reason of its own.
func bury(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := queue.OpenEmbedded(queue.StoreOptions{Dir: dir, Durability: queue.Relaxed, MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	accepted := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	next := make(chan int)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := range next {
				at := accepted.Add(time.Duration(i) * time.Millisecond)
				d := &queue.DeadLetter{
					Message: &queue.Message{
						ID: fmt.Sprintf("%08x-%04x-7000-8000-%012x", at.UnixMilli()>>16, at.UnixMilli()&0xffff, i), Route: "orders", Destination: "orders", Operation: "PlaceOrder",
						Lane: fmt.Sprint("customer ", i%977), Accepted: at, Meta: []byte(`{"v":1,"soap":"1.1","header":[["Content-Type","text/xml"]]}`), Body: []byte(order(fmt.Sprint("item ", i))),
					},
					Died: at.Add(time.Second), Reason: "permanent", Text: "fault soap:Client: an item is not for sale",
				}
				if i%1000 == 999 {
					d.Operation = "CancelOrder"
				}
				if i == n/2 {
					d.Text = "fault soap:Client: the needle is in the hay"
				}
				if err := s.Bury(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestManyDeadLetters: with 100,000 dead letters the pages of the dashboard are as small
// as with a hundred, however far somebody goes, and so are the answers that they are made
// of. How long each step takes is told, and not judged.
func TestManyDeadLetters(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a store with 100,000 messages")
	}
	const n = 100_000
	dir := t.TempDir()
	began := time.Now()
	bury(t, filepath.Join(dir, "data"), n)
	t.Logf("%-28s %v", "filling the store", time.Since(began).Round(time.Millisecond))
	g := runIn(t, dir, `
routes: [{name: orders, match: {path: /orders}, backend: orders, delivery: queue}]
backends: {orders: {nodes: ["http://127.0.0.1:1/"]}}
`)
	b := open(t, g.admin)
	began = time.Now()
	step := func(what string) {
		t.Helper()
		if all := value[int](b, `document.querySelectorAll("*").length`); all > 3500 {
			t.Errorf("%s: the page has %d elements", what, all)
		}
		most := value[float64](b, `Math.max(...performance.getEntriesByType("resource").filter((e) => e.name.includes("/messages")).map((e) => e.decodedBodySize), 0)`)
		if most > 100_000 {
			t.Errorf("%s: an answer has %.0f octets", what, most)
		}
		t.Logf("%-28s %v", what, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}
	rows := func(n int) {
		t.Helper()
		b.until(fmt.Sprintf(`document.querySelectorAll(".messages tbody tr").length === %d`, n))
	}

	b.do(chromedp.Navigate(g.admin + "/"))
	b.sees("100,000 dead letters on orders")
	step("overview")
	b.click("Look at them")
	b.sees("Messages 1 to 100 of 100,000.")
	rows(100)
	step("first page")
	first := value[string](b, `document.querySelector(".messages tbody th a").innerText`)
	for i := range 5 {
		b.click("Next page")
		b.sees(fmt.Sprintf("Messages %d to %d of 100,000.", 100*i+101, 100*i+200))
		rows(100)
	}
	step("five pages on")
	b.until(fmt.Sprintf(`!document.body.innerText.includes(%q)`, first))
	for range 5 {
		b.click("Previous page")
	}
	b.sees("Messages 1 to 100 of 100,000.")
	b.until(fmt.Sprintf(`document.querySelector(".messages tbody th a").innerText === %q`, first))
	step("and back")
	b.looks("many")

	search := `document.querySelector("input[type=search]")`
	b.do(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "needle"))
	b.click("Search")
	b.sees("the needle is in the hay")
	rows(1)
	step("one of them by its reason")
	b.until("(" + search + `.value = "no such thing", true)`)
	b.click("Search")
	b.sees("Nothing matches")
	step("none of them")
	b.until("(" + search + `.value = "", true)`)
	b.do(chromedp.SendKeys(chromedp.CSS("input[aria-label=Operation]"), "CancelOrder"))
	b.click("Search")
	b.sees("100 messages.")
	rows(100)
	step("a hundred by operation")
	b.click("Drop")
	b.sees("Drop all that match of orders?")
	b.click("Drop")
	b.sees("100 messages dropped.")
	b.sees("Nothing matches")
	b.until(`document.querySelector("[data-state=dead]").innerText.includes("99,900")`)
	step("drop these")
	b.click("Show all")
	b.sees("Messages 1 to 100 of 99,900.")
	b.press(`document.querySelector(".messages thead input")`)
	b.sees("100 messages selected")
	step("select a page")
	b.press(`document.querySelector(".messages tbody th a")`)
	b.sees("Why it is here")
	step("a message")
}
