package h1

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Date is the value of a Date field (RFC 9110 §6.6.1), made once a second. It is for
// package h2 as well. Its zero value is ready.
type Date struct{ today atomic.Pointer[dateText] }

type dateText struct {
	second int64
	text   string
}

// Text is the value at this moment.
func (d *Date) Text() string {
	now := time.Now()
	if t := d.today.Load(); t != nil && t.second == now.Unix() {
		return t.text
	}
	t := &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
	d.today.Store(t)
	return t.text
}
