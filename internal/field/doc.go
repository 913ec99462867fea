// Package field has the header fields of a message as a list, as they stand on
// their lines. To find one of a dozen it is as good as a map, and it costs one
// piece of memory instead of four, keeps the order, and needs no hashing.
//
// Names are compared whatever their case. A [List] is a slice: whoever appends to
// one that others see must clip it first, and nobody changes the fields of a list
// that is not its own. It is not safe for concurrent changes.
//
// # Specifications
//
// RFC 9110 §5.1 (names), §5.3 (order; several lines of one name).
package field
