// Package proxy is the life of an exchange: from the request as a listener took
// it, through routing, the checks of the envelope and one or more tries, to the
// answer that the listener writes.
//
// It owns [Exchange], [Reply] and the [Handler] between them, the table of
// routes, the outcome classes of a try and what becomes of each. It does not
// own any transport: listeners (proxy/listen) make exchanges, nodes
// (proxy/upstream) implement [Node], and both see only the types declared here.
// It knows envelopes through soapcodec and never looks at configuration:
// internal/app turns that into a [TableOptions], and [Handler.Swap] puts a new
// table in place without touching exchanges under way.
//
// A message flows one way through [Handler.Serve]: target, route, method, media
// type and codings, size, read, decode, the part of routing that needs the
// envelope, tries, reply check, reply. What can be refused on the head alone is
// refused before the body is read.
//
// On a queue route the message takes another turn after read: it goes, as a
// whole and with what a node would have got beside it, to the [Enqueuer], and
// the caller gets a receipt. The store calls back [Handler.Deliver], which makes
// the same tries under the settings of that day, reads the answer under the same
// checks, and says by answerTable what it means; [Handler.Probe] asks whether a
// backend can be reached at all. An answer that the route keeps ([KeptReply]) goes
// back to the store with that, in the caller's version; who asks for it later
// gets it by way of the [Follower]. One that the message wants sent elsewhere goes
// back as a message of its own ([DeliveryResult].Next), for a route that the table
// has beside those of requests ([AnswerRoute]). Nothing here knows how messages are kept.
//
// # Memory
//
// A body of up to [Limits].Buffer octets lives in one pooled buffer and is
// checked as a whole. A larger one streams: it is checked while it passes, and
// its last 16 KiB stay here until every check has passed, so that no backend
// ever sees a complete message that is bad or short. An exchange holds at most
// about two Buffers plus the scanner's window, whatever the size of the message.
// A larger one that is to be stored goes into a file of the store while it is
// checked ([BlobWriter]), and is delivered from there ([Blob]); nothing of it is
// held but what its check needs.
//
// Of a message with attachments the root is the envelope; the other parts pass
// through as they are, whatever their size ([related]). What stands in front of a
// root that must be known first waits in a file.
//
// # Choices
//
// Where the contract leaves room, these hold. A prefix condition "/a/*" also
// takes "/a". A route without a path condition uses the path of the node's URL,
// and appends the request's path only if that URL has none. The action of a
// message is that of its binding, then the other version's, then wsa:Action. An
// answer without a body passes with any status; a framed caller, who has no
// status, gets a fault from 300 on. A redirect without an envelope keeps its
// fields but not its content. A reply over max_message is the fault
// ReplyTooLarge. A request whose content coding was removed goes on without it.
// Digest fields go when the octets change.
//
// # Concurrency
//
// Handler is safe for concurrent use. A [Reply] belongs to the listener, which
// reads its body and calls Close once; buffers go back to their pool when Reply
// and every request body that a node has opened are closed.
//
// # Specifications
//
// RFC 9110 (HTTP semantics: §7.6 forwarding, §8.4 content codings, §15),
// RFC 9112 §3.2 (request target), RFC 7239 (Forwarded), RFC 7303 (XML media
// types), WS-Addressing 1.0 - Core §3 and SOAP Binding §5 (where answers go), SOAP 1.1 §6, SOAP 1.2 Part 2 §7. Deviations: a path segment that only
// decodes to ".." is refused like ".." itself, and fields that every recipient
// needs (Content-Type, SOAPAction and the like) are kept even when Connection
// names them.
package proxy
