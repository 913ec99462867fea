// Package proxyversus measures what the gateway costs beside proxies that check
// nothing (make versus WHAT=proxy). It has tests only, apart from this comment.
//
// # What is compared
//
// nginx (proxy_pass with kept connections), haproxy, httputil.ReverseProxy with
// a pool as large as the load, and the gateway with every check of a default
// route. All stand in front of one backend that does the least that HTTP asks,
// under one load, and take turns of a second, so that each meets the same
// machine. Access logs are off. Figures are medians over the turns.
//
// # How it is measured
//
// Everything runs on one core: the load, the backend and the proxy whose turn
// it is; so a proxy is never idle because the other side is slow, and nobody
// gets more of the machine. What counts is the CPU time of the proxy's own
// processes for each exchange, as the kernel accounts for it
// (/proc/PID/task/TID/schedstat). Latency is measured at a rate that all of them can
// bear, 80 % of what nginx reached, from the moment at which a request was due, so that
// a stall is seen by all that had to wait for it.
//
// # Flags
//
//   - -versus: measure; without it the tests show in a moment that each peer
//     that is installed answers.
//   - -turns, -turn: how many turns of which length.
//
// The environment may name another binary to be judged: GATEWAY.
package proxyversus
