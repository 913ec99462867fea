package alert_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"soapway/internal/alert"
)

// A condition that holds is told once.
func ExampleWatcher() {
	told := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		told <- fmt.Sprint(len(b) > 0, " ", r.Header.Get("Content-Type"))
	}))
	defer hook.Close()
	w := alert.New(alert.Options{Source: func() ([]alert.Condition, bool) {
		return []alert.Condition{{Kind: "dead-letters", Subject: "orders", Text: "1 dead letter", Value: 1}}, true
	}})
	w.Set(hook.URL, "")
	stop, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(stop, stop) }()
	fmt.Println(<-told)
	end()
	<-done
	// Output: true application/json
}
