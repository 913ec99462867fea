package xmlstream

import "fmt"

// Finer texts for what a printer refuses.
var (
	errEnded      error = &reason{"content in an element that has ended", ErrMalformed}
	errPiece      error = &reason{"another token between the pieces of one", ErrMalformed}
	errNoPiece    error = &reason{"a piece of a token without those before it", ErrMalformed}
	errNoToken    error = &reason{"the scanner has no token", ErrMalformed}
	errLate       error = &reason{"an attribute after the start tag", ErrMalformed}
	errReturn     error = &reason{"a carriage return has no way to be written here", ErrCharacter}
	errNoSpace    error = &reason{"a prefix without a namespace", ErrNamespace}
	errLateSpace  error = &reason{"a namespace must be declared behind a start and before the attributes", ErrNamespace}
	errOtherSpace error = &reason{"the prefix means another namespace in this tag", ErrNamespace}
)

// A PrintError says what a [Printer] has refused to write, and where.
type PrintError struct {
	Path string // elements open there, as in "/soap:Envelope/soap:Body"; not cut
	Err  error  // ErrMalformed, ErrNamespace, ErrCharset or a case of one, or ErrTruncated
}

// Error returns place and reason; the path is quoted and cut to 100 octets.
func (e *PrintError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("xmlstream: print: %v", e.Err)
	}
	return fmt.Sprintf("xmlstream: print in %s: %v", quotePath(e.Path), e.Err)
}

// Unwrap returns the reason.
func (e *PrintError) Unwrap() error { return e.Err }

// quotePath quotes a path and keeps its inner end.
func quotePath(path string) string {
	if len(path) > maxErrorPath {
		path = "…" + path[len(path)-maxErrorPath:]
	}
	return fmt.Sprintf("%q", path)
}
