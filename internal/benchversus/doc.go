// Package benchversus measures whether the figures of the self-test are those of
// other tools (make versus WHAT=bench). It has tests only, apart from this comment.
//
// # What is compared
//
// The raw HTTP client of gateway bench ping beside wrk: the same messages, the same
// number of connections, one gateway that is the limit, since it has one processor
// and the clients have the others. They may differ by 15 %. Where all share the
// processors a client that costs more leaves less to the server: that is a figure by
// itself.
//
// The raw stream of gateway bench net beside iperf3: writes of the same size, on a
// line of 1 Gbit/s that the kernel makes in a network of its own, as root. They may
// differ by 10 %. Over the loopback nothing but the tools is the limit: iperf3 looks
// for what is ready before each read, which is most of what its receiving end does
// with small buffers, so that ours is faster there.
//
// The tools take turns and begin by turns, so that both of a turn meet the same
// machine; what counts is the median of the ratios of the turns.
//
// # Flags
//
//   - -versus: measure; without it the tests show in a moment that both sides of
//     each comparison work, where the other tool is installed.
//   - -turns, -turn: how many turns of which length.
//
// The environment may name another binary to be judged: GATEWAY.
package benchversus
