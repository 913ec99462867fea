package faultlab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sizes of a message, as the acceptance of the queue asks for them.
const (
	smallest = 500
	largest  = 50_000
)

const (
	keyStart = "<o:Key>"
	keyEnd   = "</o:Key>"
	// poison is in messages that a backend refuses for good.
	poison = "<o:Poison/>"

	envelopeStart = `<?xml version="1.0" encoding="UTF-8"?>` + "\r\n" +
		`<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'  xmlns:o="urn:soapway:faultlab"><s:Body>` +
		"\n\t<o:Place >"
	fillStart   = "<o:Fill>"
	envelopeEnd = "</o:Fill></o:Place></s:Body>\n</s:Envelope>\n"
)

// A writer of messages makes numbered envelopes whose content follows from a seed.
type writer struct {
	pool    []byte
	borders []int // where a unit begins
}

// units are what the text of a message is made of: octets that whoever
// re-serialises XML, or converts text, would change.
var units = [...]string{
	"plain text ", "&amp;&lt;&#x41;", "\r\n\t  \r\n \n\n\t\t  \r", "ÄÖÜäöüß€ ", "<!-- a comment -->",
	"<o:e a='1'  b=\"&#10;'\" ></o:e >", "0123456789abcdef", "&#13;&#10;&#9;", "日本語の文。", "<o:leer    />",
}

func newWriter(seed uint64) *writer {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &writer{pool: make([]byte, 0, 2*largest)}
	for len(w.pool) < 2*largest {
		w.borders = append(w.borders, len(w.pool))
		w.pool = append(w.pool, units[rnd.IntN(len(units))]...)
	}
	return w
}

// text returns whole units of at most n octets, less one unit at least.
func (w *writer) text(n int, rnd *rand.Rand) []byte {
	latest, _ := slices.BinarySearch(w.borders, len(w.pool)-n)
	from := w.borders[rnd.IntN(latest)]
	end, found := slices.BinarySearch(w.borders, from+n)
	if !found {
		end--
	}
	return w.pool[from:w.borders[end]]
}

// body returns the envelope of the message with this key.
func (w *writer) body(key string, size int, deadly bool, rnd *rand.Rand) []byte {
	b := make([]byte, 0, size+1024)
	b = append(b, envelopeStart...)
	b = append(b, keyStart...)
	b = append(b, key...)
	b = append(b, keyEnd...)
	if deadly {
		b = append(b, poison...)
	}
	b = append(b, fillStart...)
	for {
		fill := min(size-len(b)-len(envelopeEnd), largest)
		if fill <= 0 {
			break
		}
		more := w.text(fill, rnd)
		if len(more) == 0 {
			break
		}
		b = append(b, more...)
	}
	return append(b, envelopeEnd...)
}

// inLane puts an order key into a body.
func inLane(body []byte, lane string) []byte {
	return bytes.Replace(body, []byte(keyEnd), []byte(keyEnd+"<o:Lane>\n"+lane+" </o:Lane>"), 1)
}

// size draws a size: as many messages between 0.5 and 5 KB as between 5 and 50.
func size(rnd *rand.Rand) int {
	return int(smallest * math.Pow(largest/smallest, rnd.Float64()))
}

// bulk draws a size: one message of four is stored in a file of its own.
func bulk(rnd *rand.Rand) int {
	if rnd.IntN(4) > 0 {
		return size(rnd)
	}
	return 1<<20 + rnd.IntN(2<<20)
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%s/%d", hex.EncodeToString(sum[:8]), len(b))
}

// keyOf finds the key in a body as it arrived.
func keyOf(body []byte) string {
	_, rest, ok := bytes.Cut(body, []byte(keyStart))
	key, _, ok2 := bytes.Cut(rest, []byte(keyEnd))
	if !ok || !ok2 || len(key) > 64 {
		return ""
	}
	return string(key)
}
