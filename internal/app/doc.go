// Package app makes a running gateway of a configuration. It is the only place
// that turns configuration into the options of other packages, and that knows
// the order in which parts start and stop.
//
// # Parts
//
// They start in this order and stop in the reverse of it, each gone before the
// next is told:
//
//	nodes      pools of connections to backends; closed last
//	store      takes the messages of queue routes and delivers them; its lock, and
//	           so that of its directory, goes last but for the nodes
//	wsdl       gets the descriptions of services that routes want to know
//	admin      answers probes and scrapes during the drain
//	listeners  all together: none takes new connections while another drains
//	watch      reloads when a file changes
//	ready      turns /readyz to 503 first, so that a balancer looks elsewhere
//
// # Reload
//
// [App.Reload] is all or nothing: everything of the new configuration is built
// beside the old, and only what cannot fail happens after the switch. A
// backend whose configuration and certificates are the same keeps its nodes,
// and with them its connections and the turn of its balancer. The nodes of the
// others are closed when the last exchange that began before the switch is
// over, so a reload breaks none. Listeners are not touched: what cannot change
// without them is refused by name ([RestartError]).
//
// # Errors
//
// What is wrong with a configuration is config.Problems with the places of the
// keys, also when it shows only in use, such as an address that is taken.
//
// # Concurrency
//
// An App is safe for concurrent use. Run returns once every goroutine of the
// gateway is gone.
package app
