// Package bundle writes and reads files of exported messages, one message after
// the other, with no more than two of them in memory, and of large envelopes none. It
// knows nothing of queues.
//
// # Format
//
// A bundle is a tar archive (POSIX ustar), which common tools list and unpack:
//
//	export.json                 what this is: format, version, where it comes from
//	00000001/envelope.xml       the octets that a backend would get
//	00000001/reply.xml          the last answer, if there is one
//	00000001/message.json       all else of the message, and size and SHA-256 of the two
//	00000002/envelope.xml
//	…
//	end.json                    how many messages there are, and what was left out
//
// The name of what does not begin as XML ends in .bin. The directories are numbered
// from 1, with eight digits at least. A message.json comes last of its directory and covers the files before
// it; its field previous, like that of end.json, is the SHA-256 of the JSON entry
// before, so that none of them can be changed, left out or moved unnoticed, and
// sha256sum tells of an unpacked bundle what [Reader.Next] tells of a packed one. A
// bundle without its end.json was cut off.
//
// A text that is not UTF-8 is {"base64": "…"} in place of a string. Fields that a
// reader does not know are passed over; what changes the meaning of others raises
// the version. A file of version 1 has no masked messages: in one of version 2 masked
// says that something of a message is hidden, so that it is not to be sent.
//
// # Hostile files
//
// A reader writes no file, takes no name but the next one that must come, no
// other type of entry (links, sparse files, extended headers), no more octets than
// its limits and than an entry has said, and holds two messages at a time, whose large envelopes it hands on.
//
// Specifications: POSIX.1-1988 ustar, RFC 8259 (JSON). Concurrency: a Writer or
// Reader is for one goroutine.
package bundle
