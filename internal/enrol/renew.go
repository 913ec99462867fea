package enrol

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// ErrElsewhere: the hub does not renew certificates, since somebody else signs them.
var ErrElsewhere = errors.New("the site at the other end has no authority of its own: it does not renew certificates")

// Due says when the certificate in a file expires, and whether it is time to renew it.
func Due(file string) (expires time.Time, due bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("enrol: %w", err)
	}
	c, err := certificateOf(text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("enrol: %s: %w", file, err)
	}
	return c.NotAfter, !time.Now().Before(renewAt(c)), nil
}

// RenewFile replaces the pair in a file by its successor, with a new key, from the hub
// at base (https://host:port). cfg shows the pair. Certificate and key are one file, as
// Join gives them: two could not be replaced at once. The error is [ErrElsewhere] where
// the hub has no authority; the file is as it was after any error.
func RenewFile(ctx context.Context, file, base string, cfg *tls.Config) error {
	pair, err := Renew(ctx, base, cfg)
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Status == http.StatusNotFound {
		return ErrElsewhere
	}
	if err != nil {
		return err
	}
	return writeFile(file, pair, 0o600)
}
