// Package interop runs clients and servers of other SOAP stacks through the
// real gateway binary, and the published message collections through its echo
// route. It holds tests only.
//
// The peers are one small service, a parcel depot (depot.wsdl, SOAP 1.1 and
// 1.2), written once for each stack: servers on PHP's SoapServer, gSOAP, npm soap
// and JAX-WS; clients on zeep, suds, SOAP::Lite, PHP's SoapClient, gSOAP, npm soap
// and JAX-WS. A client runs the operations it is told and prints one line of JSON for each: what came
// back, or the fault that its own library raised. That line is compared as a
// whole. Every pair also runs without the gateway, so that a peer that is broken
// by itself is told apart from a gateway that breaks it.
//
// gSOAP also sends files in parts of their own (MTOM, scan.h) and gets them back.
// JAX-WS peers share a second service, the attic: header blocks, one-way messages, a
// declared fault, and files by MTOM and as attachments (SwA), large ones too, through
// routes that forward, store and change the version.
//
// zeep also signs calls (WS-Security, X.509); behind the gateway xmlsec1 must still
// accept them in each mode of normalization that leaves signatures valid.
//
// Run it:
//
//	bash interop/setup.sh
//	INTEROP=1 go test -count=1 -v ./interop/...
//
// Without INTEROP=1 the pairs are skipped. The conformance test reads the message
// collections in the folder CORPUS (default ../../shared/corpus), is skipped where
// there is none, and asks xmllint for a second opinion on every file.
package interop
