package faultlab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const sec = time.Second

// ok is an accepted message, sent and answered at these seconds.
func ok(key string, start, end int) op {
	return op{Key: key, Route: "r", Hash: "h" + key, ID: "id" + key, Start: time.Duration(start) * sec, End: time.Duration(end) * sec, Outcome: accepted}
}

func (o op) in(lane string) op { o.Lane = lane; return o }

func (o op) as(x outcome) op { o.Outcome, o.ID = x, ""; return o }

// got is a request for the message of that key.
func got(key string, at int, f fate) receipt {
	return receipt{Key: key, Route: "r", Hash: "h" + key, ID: "id" + key, Attempt: "1", At: time.Duration(at) * sec, Done: time.Duration(at) * sec, Fate: f}
}

func (x receipt) marked() receipt { x.Marked = true; return x }

func (x receipt) late() receipt { x.Late = true; return x }

func (x receipt) saying(answer string) receipt { x.Answer = answer; return x }

func TestCheck(t *testing.T) {
	killed := func(at int) []breach { return []breach{{At: time.Duration(at) * sec, What: "kill -9"}} }
	tests := []struct {
		name string
		h    history
		want string // the last line, shortened
		bad  []string
	}{
		{name: "nothing happened", want: "0/0/0 0 dead 0"},
		{
			name: "all is well",
			h: history{
				Ops:      []op{ok("a", 0, 1), ok("b", 2, 3), ok("c", 4, 5).as(refused), ok("d", 4, 5).as(unknown), ok("e", 6, 7).as(unknown)},
				Receipts: []receipt{got("a", 2, taken), got("e", 3, taken), got("b", 4, taken)},
			},
			want: "2/1/2 3 dead 0",
		},
		{
			name: "an accepted message never came",
			h:    history{Ops: []op{ok("a", 0, 1), ok("b", 0, 1)}, Receipts: []receipt{got("b", 1, taken)}},
			want: "2/0/0 1 dead 0", bad: []string{"lost a"},
		},
		{
			name: "sent again and taken for what it is",
			h: history{
				Once: map[string]bool{"r": true}, Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken)},
				Echoes: []echo{{Key: "a", ID: "ida"}},
			},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "sent again and stored again",
			h: history{
				Once: map[string]bool{"r": true}, Ops: []op{ok("a", 0, 1), ok("b", 0, 1).as(unknown), ok("c", 0, 1)},
				Receipts: []receipt{got("a", 1, taken), got("b", 1, declined), {Key: "b", Route: "r", Hash: "hb", ID: "other", Fate: taken, At: 2 * sec}, got("c", 3, taken)},
				Echoes:   []echo{{Key: "a", ID: "other"}, {Key: "c", Dead: true}, {Key: "c", Why: "500 IDReused"}},
			},
			want: "2/0/1 3 dead 0", bad: []string{"stored_twice b", "stored_twice a", "stored_twice c", "stored_twice c"},
		},
		{
			name: "each key has an order of its own",
			h: history{
				Ordered:  map[string]bool{"r": true},
				Ops:      []op{ok("a", 0, 1).in("1"), ok("b", 2, 3).in("2"), ok("c", 4, 5).in("1")},
				Receipts: []receipt{got("b", 4, taken), got("c", 5, taken), got("a", 6, taken)},
			},
			want: "3/0/0 3 dead 0", bad: []string{"reordered a"},
		},
		{
			name: "it came and was declined each time",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, declined), got("a", 2, declined)}},
			want: "1/0/0 0 dead 0", bad: []string{"lost a"},
		},
		{
			name: "it came in part only",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, cut)}},
			want: "1/0/0 0 dead 0", bad: []string{"lost a"},
		},
		{
			name: "nobody answered it",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, lost)}},
			want: "1/0/0 0 dead 0", bad: []string{"lost a"},
		},
		{
			name: "a dead letter is not lost",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, declined)}, Dead: []burial{{"ida", "r", "permanent", "a", "ha"}}},
			want: "1/0/0 0 dead 1",
		},
		{
			name: "a dead letter without a reason",
			h:    history{Ops: []op{ok("a", 0, 1)}, Dead: []burial{{"ida", "r", "", "a", "ha"}}},
			want: "1/0/0 0 dead 1", bad: []string{"dead_unsaid a"},
		},
		{
			name: "a dead letter of a message that was taken",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken)}, Dead: []burial{{"ida", "r", "expired", "a", "ha"}}},
			want: "1/0/0 1 dead 1", bad: []string{"taken_yet_dead a"},
		},
		{
			name: "a dead letter of a message whose delivery a crash forgot",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken)},
				Dead: []burial{{"ida", "r", "expired", "a", "ha"}}, Breaches: killed(2),
			},
			want: "1/0/0 1 dead 1",
		},
		{
			name: "a dead letter of an unknown outcome",
			h:    history{Ops: []op{ok("a", 0, 1).as(unknown)}, Dead: []burial{{"idx", "r", "permanent", "a", "ha"}}},
			want: "0/0/1 0 dead 1",
		},
		{
			name: "a refused message is a dead letter",
			h:    history{Ops: []op{ok("a", 0, 1).as(refused)}, Dead: []burial{{"idx", "r", "permanent", "a", "ha"}}},
			want: "0/1/0 0 dead 1", bad: []string{"refused_but_delivered a"},
		},
		{
			name: "dead letters that are not what was sent",
			h: history{
				Ops:  []op{ok("a", 0, 1), ok("b", 0, 1), ok("c", 0, 1)},
				Dead: []burial{{"ida", "r", "permanent", "a", "hx"}, {"idz", "r", "permanent", "b", "hb"}, {"idc", "q", "permanent", "c", "hc"}, {"idd", "r", "permanent", "d", "hd"}},
			},
			want: "3/0/0 0 dead 4", bad: []string{"changed a", "wrong_id b", "changed c", "changed d"},
		},
		{
			name: "a dead letter of which only the start is shown",
			h:    history{Ops: []op{ok("a", 0, 1)}, Dead: []burial{{"ida", "r", "permanent", "a", ""}}},
			want: "1/0/0 0 dead 1",
		},
		{
			name: "a refused message came",
			h:    history{Ops: []op{ok("a", 0, 1).as(refused)}, Receipts: []receipt{got("a", 9, taken)}},
			want: "0/1/0 1 dead 0", bad: []string{"refused_but_delivered a"},
		},
		{
			name: "a refused message came in part",
			h:    history{Ops: []op{ok("a", 0, 1).as(refused)}, Receipts: []receipt{{Fate: cut}}},
			want: "0/1/0 0 dead 0",
		},
		{
			name: "another body",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{func() receipt { x := got("a", 1, taken); x.Hash = "other"; return x }()}},
			want: "1/0/0 1 dead 0", bad: []string{"changed a"},
		},
		{
			name: "another route",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{func() receipt { x := got("a", 1, taken); x.Route = "q"; return x }()}},
			want: "1/0/0 1 dead 0", bad: []string{"changed a"},
		},
		{
			name: "a body that nobody sent",
			h:    history{Receipts: []receipt{got("", 1, taken), got("z", 1, taken)}},
			want: "0/0/0 0 dead 0", bad: []string{"changed ", "changed z"},
		},
		{
			name: "another id",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{func() receipt { x := got("a", 1, taken); x.ID = "idb"; return x }()}},
			want: "1/0/0 1 dead 0", bad: []string{"wrong_id a"},
		},
		{
			name: "one id for two messages",
			h: history{
				Ops:      []op{ok("a", 0, 1), func() op { o := ok("b", 2, 3); o.ID = "ida"; return o }()},
				Receipts: []receipt{got("a", 1, taken), func() receipt { x := got("b", 2, taken); x.ID = "ida"; return x }()},
			},
			want: "2/0/0 2 dead 0", bad: []string{"wrong_id b"},
		},
		{
			name: "the answer was lost and the repeat has no mark",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, lost), got("a", 2, taken)}},
			want: "1/0/0 1 dead 0", bad: []string{"unmarked a"},
		},
		{
			name: "the answer was lost and the repeat has its mark",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, lost), got("a", 2, taken).marked()}},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "each repeat needs the mark",
			h: history{
				Ops:      []op{ok("a", 0, 1)},
				Receipts: []receipt{got("a", 1, lost), got("a", 2, declined).marked(), got("a", 3, declined), got("a", 4, taken)},
			},
			want: "1/0/0 1 dead 0", bad: []string{"unmarked a", "unmarked a"},
		},
		{
			name: "after a refusal no mark is needed",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, declined), got("a", 2, taken)}},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "a message of an unknown outcome needs it too",
			h: history{
				Ops: []op{ok("a", 0, 1).as(unknown)}, Receipts: []receipt{got("a", 1, taken), got("a", 2, taken)}, Breaches: killed(1),
			},
			want: "0/0/1 1 dead 0", bad: []string{"unmarked a"},
		},
		{
			name: "repeated though nothing was broken",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken), got("a", 30, taken).marked()}, Breaches: killed(20)},
			want: "1/0/0 1 dead 0", bad: []string{"repeated a"},
		},
		{
			name: "repeated after a kill",
			h:    history{Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken), got("a", 30, taken).marked()}, Breaches: killed(3)},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "repeated after something that lasted",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 0, 1)}, Lasting: []breach{{At: 2 * sec, Until: 20 * sec}},
				Receipts: []receipt{got("a", 12, taken), got("a", 22, taken).marked(), got("b", 22, taken), got("b", 23, taken).marked()},
			},
			want: "2/0/0 2 dead 0", bad: []string{"repeated b"},
		},
		{
			name: "repeated after another backend was down",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken), got("a", 3, taken).marked()},
				Breaches: []breach{{At: 2 * sec, What: "backend of q down", Route: "q"}},
			},
			want: "1/0/0 1 dead 0", bad: []string{"repeated a"},
		},
		{
			name: "repeated after its own backend was down",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, taken), got("a", 3, taken).marked()},
				Breaches: []breach{{At: 2 * sec, What: "backend of q down", Route: "q"}, {At: 2 * sec, What: "backend of r down", Route: "r"}},
			},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "out of order",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 2, 3)}, Receipts: []receipt{got("b", 4, taken), got("a", 5, taken)},
				Ordered: map[string]bool{"r": true},
			},
			want: "2/0/0 2 dead 0", bad: []string{"reordered a"},
		},
		{
			name: "order is not asked for",
			h:    history{Ops: []op{ok("a", 0, 1), ok("b", 2, 3)}, Receipts: []receipt{got("b", 4, taken), got("a", 5, taken)}},
			want: "2/0/0 2 dead 0",
		},
		{
			name: "sent at the same time, either order is right",
			h: history{
				Ops: []op{ok("a", 0, 3), ok("b", 2, 4)}, Receipts: []receipt{got("b", 4, taken), got("a", 5, taken)},
				Ordered: map[string]bool{"r": true},
			},
			want: "2/0/0 2 dead 0",
		},
		{
			name: "passed while the first was waiting for its repeat",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 2, 3)}, Receipts: []receipt{got("a", 3, declined), got("b", 4, taken), got("a", 5, taken)},
				Ordered: map[string]bool{"r": true},
			},
			want: "2/0/0 2 dead 0", bad: []string{"reordered a"},
		},
		{
			name: "a repeat behind others is not out of order",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 2, 3)}, Receipts: []receipt{got("a", 3, taken), got("b", 4, taken), got("a", 5, taken).marked()},
				Ordered: map[string]bool{"r": true}, Breaches: killed(4),
			},
			want: "2/0/0 2 dead 0",
		},
		{
			name: "one of unknown outcome may come at any time",
			h: history{
				Ops: []op{ok("a", 0, 1).as(unknown), ok("b", 2, 3)}, Receipts: []receipt{got("b", 4, taken), got("a", 5, taken)},
				Ordered: map[string]bool{"r": true},
			},
			want: "1/0/1 2 dead 0",
		},
		{
			name: "one of unknown outcome that passes",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 2, 3).as(unknown)}, Receipts: []receipt{got("b", 4, taken), got("a", 5, taken)},
				Ordered: map[string]bool{"r": true},
			},
			want: "1/0/1 2 dead 0", bad: []string{"reordered a"},
		},
		{
			name: "far out of order among many",
			h: history{
				Ops: []op{ok("a", 0, 1), ok("b", 2, 3), ok("c", 4, 5), ok("d", 6, 7)},
				Receipts: []receipt{
					got("a", 8, taken), got("c", 9, taken), got("d", 10, taken), got("b", 11, taken),
				},
				Ordered: map[string]bool{"r": true},
			},
			want: "4/0/0 4 dead 0", bad: []string{"reordered b"},
		},
		{
			name: "a key stands still until its dead letter is dropped",
			h: history{
				Ordered: map[string]bool{"r": true}, Stops: map[string]bool{"r": true}, Dropped: map[string]int{"a": 1},
				Ops:      []op{ok("a", 0, 1), ok("b", 2, 3)},
				Receipts: []receipt{got("a", 3, declined), got("b", 5, taken)}, Dead: []burial{{"ida", "r", "permanent", "a", "ha"}},
			},
			want: "2/0/0 1 dead 1",
		},
		{
			name: "a key goes on before its dead letter is dropped",
			h: history{
				Ordered: map[string]bool{"r": true}, Stops: map[string]bool{"r": true}, Dropped: map[string]int{"a": 2},
				Ops:      []op{ok("a", 0, 1), ok("b", 2, 3)},
				Receipts: []receipt{got("a", 3, declined), got("b", 5, taken)}, Dead: []burial{{"ida", "r", "permanent", "a", "ha"}},
			},
			want: "2/0/0 1 dead 1", bad: []string{"reordered a"},
		},
		{
			name: "messages are left",
			h:    history{Waiting: 3},
			want: "0/0/0 0 dead 0", bad: []string{"left_waiting "},
		},
		{
			name: "one that was given up is read after its repeat",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 5, taken).marked(), got("a", 5, taken).late()}, Breaches: killed(4),
			},
			want: "1/0/0 1 dead 0",
		},
		{
			name: "two that have no mark, one of them late",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 5, taken), got("a", 5, taken).late()}, Breaches: killed(4),
			},
			want: "1/0/0 1 dead 0", bad: []string{"unmarked a"},
		},
		{
			name: "one without a mark after its repeat, by a sender that is there",
			h: history{
				Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 5, taken).marked(), got("a", 5, taken)}, Breaches: killed(4),
			},
			want: "1/0/0 1 dead 0", bad: []string{"unmarked a"},
		},
		{
			name: "at most once",
			h: history{
				AtMost: map[string]bool{"r": true},
				Ops:    []op{ok("a", 0, 1), ok("b", 0, 1), ok("c", 0, 1), ok("d", 0, 1)},
				Receipts: []receipt{
					got("a", 1, declined), got("a", 2, declined), got("a", 3, taken), // asked for
					got("b", 1, lost), got("c", 1, taken),
				},
				Dead: []burial{{"idb", "r", "outcome-unknown", "b", "hb"}, {"idc", "r", "outcome-unknown", "c", "hc"}, {"idd", "r", "outcome-unknown", "d", "hd"}}, Breaches: killed(2),
			},
			want: "4/0/0 2 dead 3",
		},
		{
			name: "at most once, and given again",
			h: history{
				AtMost: map[string]bool{"r": true},
				Ops:    []op{ok("a", 0, 1), ok("b", 0, 1)},
				Receipts: []receipt{
					got("a", 1, taken), got("a", 2, taken).marked(), got("b", 1, lost), got("b", 2, declined).marked(),
				},
				Dead: []burial{{"idb", "r", "outcome-unknown", "b", "hb"}}, Breaches: killed(2),
			},
			want: "2/0/0 1 dead 1", bad: []string{"given_twice a", "given_twice b"},
		},
		{
			name: "at most once, and neither delivered nor dead",
			h:    history{AtMost: map[string]bool{"r": true}, Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, lost)}},
			want: "1/0/0 0 dead 0", bad: []string{"lost a"},
		},
		{
			name: "at most once, and dead as if nothing could have been done",
			h: history{
				AtMost: map[string]bool{"r": true}, Ops: []op{ok("a", 0, 1)}, Receipts: []receipt{got("a", 1, lost)},
				Dead: []burial{{"ida", "r", "expired", "a", "ha"}},
			},
			want: "1/0/0 0 dead 1", bad: []string{"taken_yet_dead a"},
		},
		{
			name: "answered in place of a receipt",
			h: history{
				Ops:      []op{ok("a", 0, 2).as(answered), ok("b", 0, 2).as(failed), ok("c", 0, 2).as(failed), ok("d", 0, 2).as(failed)},
				Receipts: []receipt{got("a", 1, taken), got("b", 1, declined), got("c", 1, lost), got("d", 9, taken).late()},
			},
			want: "0/0/0 2 dead 0",
		},
		{
			name: "answered by nobody",
			h:    history{Ops: []op{ok("a", 0, 2).as(answered)}},
			want: "0/0/0 0 dead 0", bad: []string{"lost a"},
		},
		{
			name: "answered, and stored all the same",
			h: history{
				Ops:      []op{ok("a", 0, 2).as(answered), ok("b", 0, 2).as(failed), ok("c", 0, 2).as(failed)},
				Receipts: []receipt{got("a", 1, taken), got("a", 9, taken).marked(), got("b", 1, lost), got("b", 9, taken).marked()},
				Dead:     []burial{{"idc", "r", "permanent", "c", "hc"}}, Breaches: killed(1),
			},
			want: "0/0/0 2 dead 1", bad: []string{"refused_but_delivered a", "refused_but_delivered b", "refused_but_delivered c"},
		},
		{
			name: "what repeats are told",
			h: history{
				Once: map[string]bool{"r": true}, Kept: map[string]bool{"r": true},
				Ops:      []op{ok("a", 0, 1), ok("b", 0, 1), ok("c", 0, 1)},
				Receipts: []receipt{got("a", 2, taken).saying("200"), got("b", 2, taken).saying("202"), got("c", 2, declined)},
				Dead:     []burial{{"idc", "r", "permanent", "c", "hc"}},
				Echoes: []echo{
					{Key: "a", ID: "ida", At: sec},
					{Key: "a", ID: "ida", At: 3 * sec, Replied: true},
					{Key: "a", ID: "ida", At: 3 * sec, Replied: true, Final: true},
					{Key: "b", ID: "idb", At: 3 * sec, Final: true},
					{Key: "c", ID: "idc", At: sec},
					{Key: "c", Dead: true, At: 3 * sec, Final: true},
					{Key: "a", Other: true, Why: reusedID, Final: true},
				},
			},
			want: "3/0/0 2 dead 1",
		},
		{
			name: "repeats are told what is not so",
			h: history{
				Once: map[string]bool{"r": true}, Kept: map[string]bool{"r": true},
				Ops:      []op{ok("a", 0, 1), ok("b", 0, 1), ok("c", 0, 1), ok("d", 0, 1)},
				Receipts: []receipt{got("a", 2, taken).saying("200"), got("b", 2, taken).saying("200"), got("c", 2, declined), got("d", 2, taken)},
				Dead:     []burial{{"idc", "r", "permanent", "c", "hc"}},
				Echoes: []echo{
					{Key: "a", ID: "ida", At: sec, Replied: true},         // before it was taken
					{Key: "b", ID: "idb", At: 3 * sec, Final: true},       // there is a reply
					{Key: "c", ID: "idc", At: 3 * sec, Final: true},       // it is dead
					{Key: "d", Other: true, Why: "accepted", Final: true}, // it is another message
					{Key: "d", At: 3 * sec, Why: "503 Busy", Final: true}, // nothing is broken
				},
			},
			want: "4/0/0 3 dead 1", bad: []string{"wrong_answer a", "wrong_answer b", "wrong_answer c", "wrong_answer d", "stored_twice d"},
		},
		{
			name: "framed has no mark and no id",
			h: history{
				Ops: []op{ok("a", 0, 1)},
				Receipts: []receipt{
					{Key: "a", Route: "r", Hash: "ha", Unmarkable: true, Fate: lost, At: sec},
					{Key: "a", Route: "r", Hash: "ha", Unmarkable: true, Fate: taken, At: 2 * sec},
				},
			},
			want: "1/0/0 1 dead 0",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := check(&tt.h)
			if g := fmt.Sprintf("%d/%d/%d %d dead %d", r.Accepted, r.Refused, r.Unknown, r.Delivered, r.Dead); g != tt.want {
				t.Errorf("check: got %s, want %s", g, tt.want)
			}
			var bad []string
			for _, v := range r.Violations {
				bad = append(bad, string(v.Kind)+" "+v.Key)
			}
			if !slices.Equal(bad, tt.bad) {
				t.Errorf("check: got the violations %q, want %q\n%v", bad, tt.bad, r.Violations)
			}
		})
	}
}

func TestReportLine(t *testing.T) {
	h := history{
		Ops: []op{
			ok("a", 0, 1), ok("b", 2, 3), ok("c", 4, 5), ok("d", 6, 7), ok("e", 8, 9), ok("f", 8, 9).as(refused), ok("g", 8, 9).as(unknown),
		},
		Receipts: []receipt{
			got("b", 3, taken), got("a", 4, taken), got("c", 5, lost), got("c", 6, taken), {Key: "?", Fate: taken},
		},
		Ordered: map[string]bool{"r": true},
		Dead:    []burial{{"ide", "r", "permanent", "e", "he"}},
	}
	r := check(&h)
	const want = "accepted=5 refused=1 unknown=1 delivered=3 dead=1 lost=1 changed=1 unmarked=1 reordered=1"
	if r.String() != want {
		t.Errorf("report: got  %s\nwant %s", &r, want)
	}
	var sum report
	sum.add(r)
	sum.add(r)
	if want := "accepted=10 refused=2 unknown=2 delivered=6 dead=2 lost=2 changed=2 unmarked=2 reordered=2"; sum.String() != want {
		t.Errorf("sum: got  %s\nwant %s", &sum, want)
	}
	i := slices.IndexFunc(r.Violations, func(v violation) bool { return v.Kind == isReordered })
	for _, part := range []string{"a", "sent on r", "accepted ida", "request 1: taken", "--- b", "request 0: taken"} {
		if got := r.Violations[i].String(); !strings.Contains(got, part) {
			t.Errorf("the violation does not tell %q:\n%s", part, got)
		}
	}
}
