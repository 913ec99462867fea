// Package acmelab runs letsencrypt/pebble, an ACME authority for tests, on the
// loopback interface: its certificates live as long as a test wants, its names
// all lead to 127.0.0.1, and it looks for challenges at ports of the test's
// choice. Pebble is pinned in internal/tools, so that the gateway's own module
// does not depend on it. Only tests may use this package.
package acmelab
