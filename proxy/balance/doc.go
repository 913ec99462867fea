// Package balance chooses the node of a backend that gets the next try: one
// file per policy.
//
// A policy sees, for one message, how many tries each node has under way, what
// share of the messages each is to have at this moment, and what the message is
// hashed by, and nothing about SOAP or transports. Who must not be picked, for
// whatever reason, has the weight 0. Policies are safe for concurrent use and
// keep no reference to the nodes, so one policy value lives as long as its
// backend.
package balance
