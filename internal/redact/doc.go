// Package redact hides what of a message people must not see: the elements and
// attributes whose names a route lists, and always passwords of WS-Security. It
// is for logs, listings and exports; what goes to a backend never comes here.
//
// # What is hidden
//
// Of an element that a [Mask] names the start tag stays, with *** for the values
// of its attributes, and *** stands for all that is in it. Of an attribute that
// it names the value is ***. All else keeps its octets, in UTF-8, so that the
// result is as well-formed as the document was. Nothing of a hidden element is
// held: a document of any length is masked in bounded memory.
//
// Always hidden are Password of a UsernameToken, in the namespace of WS-Security
// or of any of its drafts, whether it is the password or a digest that can be
// sent again, and BinarySecret of WS-Trust.
//
// # What is repeated
//
// An answer may repeat what is hidden of the message. [Mask.Quotes] has those values,
// as far as they are long enough to tell from other text, and hides them there.
//
// # What cannot be read
//
// A name is found only in XML. Where a document stops being that, the rest is
// left out and the error says so: it may be anything. Of a message with
// attachments only the root is looked at and given; the other parts are counted.
// [Mask.Plain] tells the texts that may be shown although they are no XML.
//
// A Mask is never changed and may be used by any number of goroutines; Quotes belong to
// one.
//
// Specifications: WS-Security UsernameToken Profile 1.1 §3.1; WS-Trust 1.4 §3.3;
// Namespaces in XML 1.0 §6.2 (an attribute without prefix is in no namespace).
package redact
