package faultlab

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// TestLedgerCanFail: what TestLink and TestLinkFaults judge by finds each promise that is
// broken.
func TestLedgerCanFail(t *testing.T) {
	type arrival struct {
		n, key  int
		marked  bool
		changed bool
	}
	for _, tt := range []struct {
		name                         string
		arrivals                     []arrival
		changed, unmarked, reordered int
		unique, duplicates           int
	}{
		{"all well", []arrival{{n: 1}, {n: 2}, {n: 3, key: 1}}, 0, 0, 0, 3, 0},
		{"other keys overtake", []arrival{{n: 2}, {n: 1, key: 1}}, 0, 0, 0, 2, 0},
		{"lost", []arrival{{n: 1}, {n: 3}}, 0, 0, 0, 2, 0},
		{"another octet", []arrival{{n: 1, changed: true}}, 1, 0, 0, 1, 0},
		{"overtaken", []arrival{{n: 2}, {n: 1}}, 0, 0, 1, 2, 0},
		{"twice, marked", []arrival{{n: 1}, {n: 1, marked: true}}, 0, 0, 0, 1, 1},
		{"twice", []arrival{{n: 1}, {n: 1}}, 0, 1, 0, 1, 1},
		{"twice, the first marked", []arrival{{n: 1, marked: true}, {n: 1}}, 0, 1, 0, 1, 1},
	} {
		s := newLedgerNode(t)
		for _, a := range tt.arrivals {
			body := envelopeOf(a.n)
			if a.changed {
				body[len(body)/2] ^= 1
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", bytes.NewReader(body))
			r.Header.Set("X-Id", strconv.Itoa(a.n))
			r.Header.Set("X-Key", strconv.Itoa(a.key))
			if a.marked {
				r.Header.Set("Gateway-Possible-Duplicate", "true")
			}
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		if s.changed != tt.changed || s.unmarked != tt.unmarked || s.reordered != tt.reordered || s.unique("/orders") != tt.unique || s.duplicates != tt.duplicates {
			t.Errorf("%s: changed=%d unmarked=%d reordered=%d unique=%d duplicates=%d, want %d, %d, %d, %d, %d", tt.name,
				s.changed, s.unmarked, s.reordered, s.unique("/orders"), s.duplicates, tt.changed, tt.unmarked, tt.reordered, tt.unique, tt.duplicates)
		}
	}
}
