package guard

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// fresh is how old a UsernameToken may be, as the profile proposes in §3.1;
	// ahead is how far the sender's clock may be in front of ours.
	fresh = 5 * time.Minute
	ahead = time.Minute
	// maxNonces bounds what is kept against replay: some 20 MiB. Nobody without
	// a password can fill it, since only tokens that are right are kept.
	maxNonces = 200_000
)

// The types of a password (UsernameToken Profile 1.1 §3.1).
const (
	usernameProfile = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#"
	passwordText    = usernameProfile + "PasswordText"
	passwordDigest  = usernameProfile + "PasswordDigest"
)

// UsernameToken is what stands in the element of that name.
type UsernameToken struct {
	Username     string
	Password     string
	PasswordType string // the Type attribute; "" is PasswordText
	Nonce        string // base64
	Created      string
}

// Usernames are user names with passwords.
type Usernames struct {
	plain  map[string]string
	hashed *Passwords
	seal   sealer

	mu     sync.Mutex
	nonces map[[32]byte]time.Time // those seen, and when they no longer count
}

// ReadUsernames reads a file with user:password on each line, empty lines and
// those that begin with # left out. A password may be a bcrypt hash; a digest
// cannot be verified by one, so such a user must send its password as text. The
// error names the line.
func ReadUsernames(r io.Reader) (*Usernames, error) {
	u := &Usernames{plain: map[string]string{}, seal: newSealer(), nonces: map[[32]byte]time.Time{}}
	var hashed bytes.Buffer
	err := eachLine(r, func(line string) error {
		user, password, ok := strings.Cut(line, ":")
		switch {
		case !ok || user == "" || password == "":
			return errors.New("want user:password")
		case u.plain[user] != "":
			return fmt.Errorf("user %q is there twice", user)
		case strings.HasPrefix(password, "$2"):
			fmt.Fprintln(&hashed, line)
			return nil
		}
		u.plain[user] = password
		return nil
	})
	if err != nil {
		return nil, err
	}
	if hashed.Len() > 0 {
		if u.hashed, err = ReadPasswords(&hashed); err != nil {
			return nil, err
		}
		for user := range u.plain {
			if u.hashed.hashes[user] != nil {
				return nil, fmt.Errorf("user %q is there twice", user)
			}
		}
	}
	if len(u.plain) == 0 && u.hashed == nil {
		return nil, errors.New("has no users")
	}
	return u, nil
}

// Username judges the UsernameToken of an exchange that Enter left open; tok is
// nil where the envelope has none. It returns the name that the caller has
// proved to have, or an error for the log.
func (g *Guard) Username(tok *UsernameToken) (name string, err error) {
	if tok == nil {
		return "", errors.New("guard: the envelope has no UsernameToken")
	}
	if err := g.opt.Usernames.check(tok, time.Now()); err != nil {
		return "", err
	}
	return "wss:" + tok.Username, nil
}

// check verifies a token (UsernameToken Profile 1.1 §3.1, §3.2). Nonce and
// Created are optional with a password as text, and count where they are.
func (u *Usernames) check(tok *UsernameToken, now time.Time) error {
	var nonce []byte
	if tok.Nonce != "" {
		var err error
		if nonce, err = base64.StdEncoding.DecodeString(tok.Nonce); err != nil || len(nonce) > 256 {
			return errors.New("guard: the Nonce is not base64, or too long")
		}
	}
	var created time.Time
	if tok.Created != "" {
		var err error
		if created, err = parseTime(tok.Created); err != nil {
			return errors.New("guard: Created is not a time")
		}
		if created.Before(now.Add(-fresh)) || created.After(now.Add(ahead)) {
			return errors.New("guard: Created is too long ago, or in the future")
		}
	}
	switch tok.PasswordType {
	case "", passwordText:
		want, plain := u.plain[tok.Username]
		switch equal := u.seal.seal(want) == u.seal.seal(tok.Password); {
		case plain && equal:
		case plain || u.hashed == nil:
			return errWrong
		default:
			if err := u.hashed.verify(tok.Username, tok.Password); err != nil {
				return err
			}
		}
	case passwordDigest:
		if len(nonce) == 0 || created.IsZero() {
			return errors.New("guard: a digest needs Nonce and Created")
		}
		want := u.plain[tok.Username]
		h := sha1.New() // what the profile prescribes
		h.Write(nonce)
		io.WriteString(h, tok.Created)
		io.WriteString(h, want)
		got, err := base64.StdEncoding.DecodeString(strings.TrimSpace(tok.Password))
		if err != nil || want == "" || !hmac.Equal(h.Sum(nil), got) {
			return errWrong
		}
	default:
		return errors.New("guard: the type of the password is not known")
	}
	if len(nonce) > 0 && !u.first(tok.Username, nonce, created, now) {
		return errors.New("guard: the Nonce was used before")
	}
	return nil
}

// first keeps a nonce and reports whether it is new. One without Created is kept
// as long as one that was created at this moment.
func (u *Usernames) first(user string, nonce []byte, created, now time.Time) bool {
	if created.IsZero() {
		created = now
	}
	sum := u.seal.seal(user, string(nonce))
	u.mu.Lock()
	defer u.mu.Unlock()
	if until, seen := u.nonces[sum]; seen && until.After(now) {
		return false
	}
	if len(u.nonces) >= maxNonces {
		for k, until := range u.nonces {
			if !until.After(now) {
				delete(u.nonces, k)
			}
		}
		if len(u.nonces) >= maxNonces {
			return false // better refused than open to replay
		}
	}
	u.nonces[sum] = created.Add(fresh)
	return true
}

// parseTime reads an xsd:dateTime; one without a zone is UTC, as the profile's
// clients mean it.
func parseTime(s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Parse("2006-01-02T15:04:05.999999999", s)
}
