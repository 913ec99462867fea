package queue

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestKeyOf: an id is a UUID in the index only if String gives back the same text;
// any other is kept beside the hash of it. Neither allocates.
func TestKeyOf(t *testing.T) {
	const id = "0190e000-1a2b-7c3d-8e4f-fedcba987650"
	for _, c := range []struct {
		id    string
		plain bool
	}{
		{id, true},
		{uuid.Nil.String(), true},
		{strings.ToUpper(id), false},
		{"", false},
		{id[:35], false},
		{id + "0", false},
		{"urn:uuid:" + id, false},
		{strings.Replace(id, "7c3d", "fc3d", 1), false}, // the version that marks a hash
		{strings.Replace(id, "a", "g", 1), false},
		{strings.Replace(id, "a", "`", 1), false},
		{strings.Replace(id, "0", ":", 1), false},
		{strings.Replace(id, "0", "/", 1), false},
		{strings.Replace(id, "fe", "f\xff", 1), false},
		{strings.Replace(id, "-", "0", 1), false},
		{strings.Replace(id, "e0", "-e", 1), false},
	} {
		k := keyOf(c.id)
		if plain := k[6]&hashed != hashed; plain != c.plain || plain && k.String() != c.id {
			t.Errorf("keyOf(%q): got %v, plain %v, want plain %v", c.id, k, plain, c.plain)
		}
		if u, err := uuid.Parse(c.id); c.plain && (err != nil || idKey(u) != k) {
			t.Errorf("keyOf(%q): got %x, want %x (%v)", c.id, k, u, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { keyOf(id) }); n != 0 {
		t.Errorf("keyOf allocates %v times", n)
	}
}

// TestPlace: the numbers of a message that a scan has got, in both forms of the
// subject that the server answers to.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		reply         string
		seq, delivery uint64
		bad           bool
	}{
		{reply: "$JS.ACK.GW_IN.scan-1.1.77.5.1800000000000000000.9", seq: 77, delivery: 5},
		{reply: "$JS.ACK._.hash.GW_IN.scan-1.1.77.5.1800000000000000000.9", seq: 77, delivery: 5},
		{reply: "$JS.ACK._.hash.GW_IN.scan-1.1.77.5.1800000000000000000.9.token", seq: 77, delivery: 5},
		{reply: "", bad: true},
		{reply: "$JS.ACK.GW_IN.scan-1.1.77.5.1800000000000000000", bad: true},
		{reply: "$JS.ACK._.GW_IN.scan-1.1.77.5.1800000000000000000.9", bad: true},
		{reply: "$JS.ACK.GW_IN.scan-1.1..5.1800000000000000000.9", bad: true},
		{reply: "$JS.ACK.GW_IN.scan-1.1.77.x.1800000000000000000.9", bad: true},
	} {
		var r scanned
		delivery, err := r.place(c.reply)
		if (err != nil) != c.bad || !c.bad && (r.seq != c.seq || delivery != c.delivery) {
			t.Errorf("place(%q): got %d, %d, %v, want %d, %d", c.reply, r.seq, delivery, err, c.seq, c.delivery)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = r.place(c.reply) }); !c.bad && n != 0 {
			t.Errorf("place(%q) allocates %v times", c.reply, n)
		}
	}
}
