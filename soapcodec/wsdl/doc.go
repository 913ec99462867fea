// Package wsdl reads descriptions of SOAP services: WSDL 1.1 with its bindings
// to SOAP 1.1, SOAP 1.2 and HTTP, WSDL 2.0, and the XML Schema documents that
// belong to them. It knows what a document refers to and which operations it
// describes; where documents come from and where clients find them is decided
// by package proxy.
//
// # Rewriting
//
// [Rewrite] copies a document octet for octet, but for the references that its
// caller replaces: addresses of ports and endpoints, addresses of endpoint
// references of WS-Addressing, locations of imports, includes and redefinitions,
// and the URIs of policy references. Namespaces, documentation and everything
// else that only looks like a URL stay as they are. It works on the tokens of
// xmlstream.Scanner and builds no tree. A [Reading] with a [Rewriter] does the
// same to a document that is still coming.
//
// # Reading
//
// [Parse] returns what one document says, [Merge] puts the documents of a
// service together, resolves the names between them and returns its operations. A
// name that leads nowhere is reported in [Catalog.Unresolved] and is no error,
// since an import may be out of reach.
//
// # Specifications
//
// WSDL 1.1 (W3C Note, 2001), Binding Extension for SOAP 1.2 (W3C Member
// Submission, 2006), WSDL 2.0 part 1 and part 2 (adjuncts), XML Schema 1.0
// part 1 §4.2, WS-Addressing 1.0 and its submission of 2004, WS-Policy 1.2 and
// 1.5 (references only). A DOCTYPE is refused, as everywhere. Of WSDL 2.0 those
// parts are read that name operations, endpoints and imports; extends is
// followed, features and properties are not looked at.
package wsdl
