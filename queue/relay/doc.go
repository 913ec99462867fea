// Package relay carries stored messages from one site to another over links that
// may be down for a minute or for weeks (SPEC.md §6).
//
// It owns the protocol between two gateways, the batches of a link and what a site
// does with a batch that comes. It does not own the messages: on this side the
// queue gives them in batches, in the order of their keys, and tries again what
// was not answered; on the far side a [Home] takes each and makes it durable. So a
// link has no store of its own, and nothing to lose.
//
//	queue ──→ Hub.SendAll ──→ batch ──HTTP/2, TLS with certificates of both──→ Hub.Serve ──→ Home.Take ──→ queue
//	            ↑                                                                             │
//	            └─────── stored | duplicate | refused | later | denied | behind, per item ←───┘
//
// # Exactly once
//
// An item has a label, [queue.Label]: origin, epoch, link, class and a number that
// is dense among these. It stands in the record of the message on both sides, so
// that it is durable exactly when the message is. Whatever is lost on the way, an
// item or its answer, is sent again under the same label, and the far side answers
// duplicate. It believes no name that an item claims: the origin of a label begins
// with the site that the certificate of the connection has proved. A refused item is
// refused for good: it becomes a dead letter at its origin, and its number is not
// used again.
//
// # Order
//
// A batch has several messages of one key, one [Item] behind the other: the far side
// stores them in that order, each only if the one before it is stored, or was before, and
// answers behind for the rest. The queue has one batch with a key under way, so no two
// batches at a time have it. A batch that comes once more, or late, changes nothing: of
// each key it has the beginning of what was to come, under the same labels.
//
// # Protocol
//
// Requests are POST; a body is a batch ([Item] draws it), compressed by zstd
// (RFC 8878) where Content-Encoding says so, or JSON.
//
//	/_site/v1/hello  JSON: who we are and how far our numbers have come; the answer has what the far side has of them, and a name for its present run
//	/_site/v1/batch  a batch, for that run; the answer is JSON, a result for each item, sent once all are durable, or 412 where it is another run
//	/_site/v1/pull   JSON: the results of the last batch that was fetched; the answer is the next batch, or 204 after a while
//
// A pull is a batch the other way round, for a site that cannot be reached: the
// site that fetches treats it as one that has come.
//
// # Answers
//
// An item may ask for the answer to it ([Item.WantsReply]). That is an item as well,
// with a label of the site that sends it ([Item.Reply]); it goes over the link of that
// site, or the site that waits for it fetches it. A [Home] takes it only where it has
// sent the item to that site and awaits the answer, so that nobody can answer for
// another, nor twice.
//
// # Limits
//
// A batch has at most [MaxItems] items, and at most [MaxOctets] octets of bodies that
// are held in memory; a larger body is read while it is stored, and is bounded by its
// route. What decompresses to more than 200 times its size is cut off.
//
// # Errors
//
// [Hub.Send] fails with [ErrDown] where no answer came, which says nothing of the
// item; it is safe to send it again.
package relay
