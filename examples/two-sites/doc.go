// Command two-sites shows two sites and a link that goes down and comes back.
//
//	go run ./examples/two-sites
//
// It makes two folders, hq and plant, starts a gateway in each, joins them by an
// invitation, as docs/sites.md does it by hand, and puts a link between them that
// it cuts and heals while messages are sent to the plant. Each second it prints
// what was accepted there, what waits, and what has arrived at a service behind hq.
// At the end it counts what was lost, came twice or came out of order. Everything is
// on loopback; the folders go when it ends.
package main
