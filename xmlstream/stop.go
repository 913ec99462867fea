package xmlstream

import (
	"encoding/binary"
	"math/bits"
)

// nibbles are two tables, one behind the other, by which an octet's class is
// found from its low and its high four bits: c stops by t if
// t[c&15]&t[16+c>>4] is not 0.
type nibbles = [32]uint8

// nibblesOf returns the tables for the octets of class stop. Rows of 16 octets
// that stop alike share a bit, so any class of ours needs at most eight.
func nibblesOf(stop uint8) *nibbles {
	t := new(nibbles)
	bit := map[uint16]uint8{}
	for high := range 16 {
		var row uint16
		for low := range 16 {
			if class[high<<4|low]&stop != 0 {
				row |= 1 << low
			}
		}
		if row == 0 {
			continue
		}
		if bit[row] == 0 {
			bit[row] = 1 << len(bit)
		}
		t[16+high] = bit[row]
		for low := range 16 {
			if row>>low&1 != 0 {
				t[low] |= bit[row]
			}
		}
	}
	return t
}

var (
	textNibbles   = nibblesOf(stopText)
	doubleNibbles = nibblesOf(stopDouble)
	singleNibbles = nibblesOf(stopSingle)
	cdataNibbles  = nibblesOf(stopCDATA)
	otherNibbles  = nibblesOf(stopOther)
)

const (
	// wideFrom is how many octets without a stop come before the wide search is
	// worth its call.
	wideFrom = 96
	// wideLeast is the least that the wide search takes.
	wideLeast = 32
	// wideMost bounds one call of the wide search, which cannot be preempted.
	wideMost = 64 << 10
)

// vector tells to search 64 octets at a time. Tests switch it.
var vector = hasAVX2

// stopWide returns the index, from i on, of the first octet of b that stops by
// t. If there is none it returns an index from which fewer than wideLeast
// octets are left.
func stopWide(b []byte, i int, t *nibbles) int {
	for len(b)-i >= wideLeast {
		n := min(len(b)-i, wideMost)
		k := stopAVX2(&b[i], n, t)
		i += k
		if k < n {
			break
		}
	}
	return i
}

// classStop returns the index, from i on, of the first octet of b of class
// stop, whose tables are t. It returns len(b) if there is none.
func classStop(b []byte, i int, stop uint8, t *nibbles) int {
	if narrow := min(len(b), i+wideFrom); vector {
		for i < narrow && class[b[i]]&stop == 0 {
			i++
		}
		if i < narrow {
			return i
		}
		i = stopWide(b, i, t)
	}
	for i < len(b) && class[b[i]]&stop == 0 {
		i++
	}
	return i
}

// The words of the eight-octets-at-a-time test.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// textStop returns the index, from i on, of the first octet of b that ends or
// interrupts character data: '<', '&', ']', a control other than white space,
// or one that is not ASCII. It returns len(b) if there is none.
//
// Hot path: must not allocate (TestAllocs). Eight octets at a time, by the
// classic test for a zero octet in a word: it may flag an octet behind a
// special one, never before it, so the lowest flag is right. Measure:
//
//	go test ./xmlstream -run '^$' -bench TextStop -count 10
func textStop(b []byte, i int) int {
	if i = textNear(b, i); i == len(b) || class[b[i]]&stopText != 0 {
		return i
	}
	for {
		if vector {
			i = stopWide(b, i, textNibbles)
		}
		if i = textNear(b, i); i == len(b) || class[b[i]]&stopText != 0 {
			return i
		}
	}
}

// textNear is textStop for the next wideFrom octets or a few more: if none of
// them stops, it returns the index behind, whatever is there. It calls nothing,
// which makes it the faster choice for what is mostly short.
func textNear(b []byte, i int) int {
	for far := i + wideFrom; i+8 <= len(b); {
		w := binary.LittleEndian.Uint64(b[i:])
		less, amp, square := w^('<'*ones), w^('&'*ones), w^(']'*ones)
		m := (w | (w - 0x20*ones) | (less-ones)&^less | (amp-ones)&^amp | (square-ones)&^square) & highs
		if m == 0 {
			if i += 8; i < far {
				continue
			}
			return i
		}
		i += bits.TrailingZeros64(m) / 8
		if class[b[i]]&blank == 0 {
			return i
		}
		i++ // \t, \n or \r
	}
	for i < len(b) && class[b[i]]&stopText == 0 {
		i++
	}
	return i
}

// valueStop returns the index, from i on, of the first octet of b that is
// quote, or that ends or interrupts a value for another reason: '<', '&', white
// space other than a blank, another control, or one that is not ASCII. It
// returns len(b) if there is none.
func valueStop(b []byte, i int, quote byte) int {
	q := uint64(quote) * ones
	for far := i + wideFrom; i+8 <= len(b); {
		w := binary.LittleEndian.Uint64(b[i:])
		less, amp, end := w^('<'*ones), w^('&'*ones), w^q
		m := (w | (w - 0x20*ones) | (less-ones)&^less | (amp-ones)&^amp | (end-ones)&^end) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		if i += 8; i < far || !vector {
			continue
		}
		t := doubleNibbles
		if quote == '\'' {
			t = singleNibbles
		}
		i = stopWide(b, i, t)
		break
	}
	for i < len(b) {
		if c := b[i]; c == quote || c == '<' || c == '&' || c < 0x20 || c >= 0x80 {
			break
		}
		i++
	}
	return i
}
