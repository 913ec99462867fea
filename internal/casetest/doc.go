// Package casetest judges the built gateway from outside, through sockets. It
// has tests only, apart from this comment.
//
// It owns the acceptance cases (folders of a case.json with exact octets), a
// scripted raw backend and a raw client that record every octet, an infoset
// oracle that shares no code with the product, and scenarios of its own for
// what the product contract promises about answers, headers, nodes, streams,
// reload and drain. It does not own unit tests of any package.
//
// The gateway is built once and run as a process on ports the kernel chooses.
// Every gateway that a test starts is stopped by SIGTERM, must then exit with
// 0, must have printed no stack trace and no secret, and must not have kept a
// goroutine for a finished exchange.
//
// Environment:
//
//   - CASES: the folder of the acceptance cases (default ../../../shared/cases);
//     absent = those tests are skipped, the scenarios still run.
//   - CORPUS: the folder of real messages (default ../../../shared/corpus);
//     absent = skipped.
//   - N: how many mutated documents TestNeverAcceptsWhatXmllintRefuses tries.
//   - MIB: the size of the attachment of TestLargeParcel.
//   - CONNS: the connections of TestIdleConnections.
//
// A case passes only if every leaf of its expectations was looked at by an
// assertion: what no check covers fails the case (see claims). Cases that need
// a part which is not built yet are named in notyet_test.go with the reason.
package casetest
