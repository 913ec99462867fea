// Package benchversus measures whether the figures of the self-test are those of
// other tools (make versus WHAT=bench). It has tests only, apart from this comment.
//
// # What is compared
//
// The raw HTTP client of gateway bench ping beside wrk: the same messages, the same
// number of connections, one gateway that is the limit. And the raw stream of
// gateway bench net beside iperf3: writes of the same size over the loopback. The
// tools take turns, so that each meets the same machine; figures are medians over
// the turns. A rate may differ by 15 %, a stream by 10 %.
//
// # Flags
//
//   - -versus: measure; without it the tests show in a moment that both sides of
//     each comparison work, where the other tool is installed.
//   - -turns, -turn: how many turns of which length.
//
// The environment may name another binary to be judged: GATEWAY.
package benchversus
