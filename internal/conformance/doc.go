// Package conformance holds the codec against collections that others have
// published: the W3C XML Conformance Test Suite 20130923, the messages of the
// SOAP 1.2 test collection and of the SOAPBuilders rounds, real messages, and
// documents that attack XML parsers, and against the verdicts of libxml2. Its tests print what they counted and every
// deviation with the reason, and fail on one that is not known:
//
//	make conformance
//
// None of the collections is part of this repository, since their licences ask
// for whole and unmodified copies. They are read from the folder that CORPUS
// names (default ../../../shared/corpus). Where it is absent make conformance
// fetches the W3C suite with npm, and a plain go test skips.
//
// What the packages of the product and the tests of other packages share is here
// as code: the list of messages, and which of them must be refused with which
// fault. docs/conformance.md explains the deviations.
//
// # Specifications
//
//   - Extensible Markup Language (XML) 1.0, Fifth Edition
//   - Namespaces in XML 1.0, Third Edition
//   - SOAP Version 1.2 Specification Assertions and Test Collection (Second
//     Edition): its messages; what a service answers to them is out of scope
package conformance
