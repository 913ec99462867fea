// Package xmldsig verifies XML signatures, so that tests can tell whether a message
// is still valid behind the gateway. The product itself neither signs nor verifies:
// nothing outside tests may import this package.
//
// It reads a message with one Signature whose references name elements of the
// same document by their Id, as WS-Security clients write them, and knows the
// inclusive and exclusive canonical forms with and without comments, SHA-1 and
// SHA-256, HMAC and RSA. What it does not know is an error, never a valid
// signature. It does not judge keys: certificates, dates and trust are the
// caller's.
//
// # Specifications
//
//   - XML Signature Syntax and Processing (Second Edition), §3.2 (core
//     validation), §4.4.3 (references), §6 (algorithms)
//   - Exclusive XML Canonicalization 1.0 and Canonical XML 1.0, by package
//     xmlstream
//   - Web Services Security: SOAP Message Security 1.0 §4 (wsu:Id), §8
package xmldsig
