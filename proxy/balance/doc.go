// Package balance chooses the node of a backend that gets the next try: one
// file per policy.
//
// A policy sees how many tries each node has under way and which nodes were
// tried already for this message, and nothing about SOAP or transports.
// Policies are safe for concurrent use and keep no reference to the nodes, so
// one policy value lives as long as its backend.
package balance
