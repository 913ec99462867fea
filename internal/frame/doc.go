// Package frame reads and writes length-prefixed messages: a big-endian
// unsigned length of 2 or 4 octets that counts the octets of the payload, then
// the payload (SPEC.md §3, Framed). It knows nothing about what a payload is.
//
// A [Reader] yields one frame after the other and is itself an io.Reader over
// the payload of the current one, so that a frame of any length streams in
// bounded memory. The limit is checked on the length alone, before anything is
// allocated. Frames cannot be resynchronised: every error of a Reader is final,
// and the owner of the connection must close it.
//
// Errors of the underlying reader pass through untouched. io.EOF means an end
// between two frames, io.ErrUnexpectedEOF an end inside one.
//
// A Reader is not safe for concurrent use.
package frame
