// Package health keeps, for each node of a backend, whether messages are better
// sent elsewhere: from what became of the messages that it got ([Group.Failed],
// [Group.Succeeded]) and from checks made for the purpose ([Group.Run]).
//
// It knows nothing of transports and of SOAP: who tells it of an outcome has
// decided whether that counts against the node. A SOAP fault never does.
//
// # Out and back
//
// A node is out when Failures outcomes in a row, all within Within, were
// failures: it is ejected for Eject, the second time in short order for twice as
// long, and so on up to five minutes. It is also out from the time UnhealthyAfter
// checks in a row have failed until HealthyAfter have succeeded.
//
// A node that is back from an ejection is on trial: its first failure ejects it
// again, its first success ends the trial. A success while it is out, of a
// message that had nowhere else to go, brings it back at once, and so does a
// check that has failed before and succeeds again. For ten seconds from its
// return its share grows from a tenth to the whole, so that a node which has
// to warm up is not buried under all that waited; where all nodes return at
// once their shares stay the same among each other.
//
// Being out is advice. Where every node is out a message is still better tried
// than refused: a caller loses nothing by it, and it is how the gateway learns
// that a node is back. That the last one is out is told to whoever delivers
// stored messages, which can wait.
//
// # Concurrency
//
// A Group is safe for concurrent use. While a node has had no failure neither
// asking for its share nor telling of its success takes a lock.
package health
