package guard

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

const (
	// maxLine bounds a line of a file of credentials.
	maxLine = 64 << 10
	// maxPassword is what bcrypt looks at; a longer password would be cut.
	maxPassword = 72
	// atOnce is how many passwords of a route are verified at a time, and
	// maxVerifying how many wait for that: bcrypt takes some 60 ms of a core each,
	// and must not take the whole machine.
	atOnce       = 2
	maxVerifying = 64
	// maxProved bounds the passwords that are remembered as right.
	maxProved = 4096
)

// sealer makes digests that only this process can make: they can be compared
// and kept without telling what they are of.
type sealer [32]byte

func newSealer() (s sealer) {
	rand.Read(s[:]) // never fails
	return s
}

func (s *sealer) seal(parts ...string) (sum [32]byte) {
	m := hmac.New(sha256.New, s[:])
	for _, p := range parts {
		io.WriteString(m, strconv.Itoa(len(p)))
		io.WriteString(m, ":")
		io.WriteString(m, p)
	}
	m.Sum(sum[:0])
	return sum
}

// Passwords are user names with bcrypt hashes.
type Passwords struct {
	hashes map[string][]byte
	cost   []byte // the hash that stands for unknown users
	seal   sealer

	mu        sync.Mutex
	proved    map[[32]byte]struct{}
	verifying atomic.Int64
	slots     chan struct{}
}

var (
	errWrong = errors.New("guard: the user name or its password is wrong")
	errBusy  = errors.New("guard: too many passwords wait to be verified")
)

// ReadPasswords reads a file as htpasswd -B writes it: user:hash on each line,
// empty lines and those that begin with # left out. The error names the line.
func ReadPasswords(r io.Reader) (*Passwords, error) {
	p := &Passwords{
		hashes: map[string][]byte{}, seal: newSealer(), proved: map[[32]byte]struct{}{},
		slots: make(chan struct{}, atOnce),
	}
	err := eachLine(r, func(line string) error {
		user, hash, ok := strings.Cut(line, ":")
		if !ok || user == "" {
			return errors.New("want user:hash")
		}
		if _, twice := p.hashes[user]; twice {
			return fmt.Errorf("user %q is there twice", user)
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return fmt.Errorf("user %q has no bcrypt hash (htpasswd -B makes one)", user)
		}
		p.hashes[user] = []byte(hash)
		p.cost = []byte(hash)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.hashes) == 0 {
		return nil, errors.New("has no users")
	}
	return p, nil
}

// check verifies the credentials of RFC 7617 §2.
func (p *Passwords) check(encoded string) (user string, err error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || !utf8.Valid(b) {
		return "", errWrong
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return "", errWrong
	}
	return user, p.verify(user, password)
}

// verify returns nil, errWrong or errBusy. A user that does not exist costs as
// much as a wrong password.
func (p *Passwords) verify(user, password string) error {
	if len(password) > maxPassword {
		return errWrong
	}
	sum := p.seal.seal(user, password)
	p.mu.Lock()
	_, known := p.proved[sum]
	p.mu.Unlock()
	if known {
		return nil
	}
	hash, exists := p.hashes[user]
	if !exists {
		hash = p.cost
	}
	if p.verifying.Add(1) > maxVerifying {
		p.verifying.Add(-1)
		return errBusy
	}
	p.slots <- struct{}{}
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	<-p.slots
	p.verifying.Add(-1)
	if err != nil || !exists {
		return errWrong
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.proved) >= maxProved {
		clear(p.proved)
	}
	p.proved[sum] = struct{}{}
	return nil
}

// Tokens are secrets that prove by themselves who has them.
type Tokens struct {
	seal  sealer
	names map[[32]byte]string
}

// NewTokens makes tokens of a list. Their names are their places in it, from 1.
func NewTokens(secrets []string) (*Tokens, error) {
	t := &Tokens{seal: newSealer(), names: map[[32]byte]string{}}
	for i, s := range secrets {
		if err := t.add(s, strconv.Itoa(i+1)); err != nil {
			return nil, fmt.Errorf("number %d: %w", i+1, err)
		}
	}
	return t, nil
}

// ReadTokens reads a file with a token on each line, or a name, white space and
// a token. Empty lines and those that begin with # are left out. A token without
// a name has that of its line. The error names the line.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{seal: newSealer(), names: map[[32]byte]string{}}
	n := 0
	err := eachLine(r, func(line string) error {
		n++
		words := strings.Fields(line)
		switch len(words) {
		case 1:
			return t.add(words[0], strconv.Itoa(n))
		case 2:
			return t.add(words[1], words[0])
		}
		return errors.New("want a token, or a name and a token")
	})
	if err != nil {
		return nil, err
	}
	if len(t.names) == 0 {
		return nil, errors.New("has no tokens")
	}
	return t, nil
}

func (t *Tokens) add(secret, name string) error {
	if secret == "" {
		return errors.New("is empty")
	}
	sum := t.seal.seal(secret)
	if _, twice := t.names[sum]; twice {
		return errors.New("is there twice")
	}
	t.names[sum] = name
	return nil
}

func (t *Tokens) check(secret string) (name string, ok bool) {
	name, ok = t.names[t.seal.seal(strings.TrimSpace(secret))]
	return name, ok
}

// eachLine calls f for the lines that are not empty and no comments. Errors of f
// get the line's number, and must not have its text.
func eachLine(r io.Reader, f func(line string) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	for n := 1; sc.Scan(); n++ {
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if err := f(string(line)); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return nil
}
