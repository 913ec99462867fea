// Package uitest looks at the dashboard as an operator does: a headless Chromium
// opens it on a gateway that runs as its own process, clicks, reads what the page
// says, and takes pictures. It has tests only, which skip where no Chromium is;
// interop/setup.sh installs one.
//
// No test may leave an error in the console, break the Content Security Policy, or
// make the page ask another host for anything.
//
// Pictures for the eye: go test ./internal/uitest -run Pictures -pictures DIR
package uitest
