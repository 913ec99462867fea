package guard

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func TestUsername(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stamp := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	digest := func(nonce, created, password string) string {
		sum := sha1.Sum([]byte(nonce + created + password))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		name string
		tok  UsernameToken
		ok   bool
	}{
		{"text", UsernameToken{Username: "ann", Password: "secret"}, true},
		{"text by its type", UsernameToken{Username: "ann", Password: "secret", PasswordType: passwordText}, true},
		{"text of a hash", UsernameToken{Username: "ben", Password: "hidden"}, true},
		{"wrong text", UsernameToken{Username: "ann", Password: "Secret"}, false},
		{"wrong text of a hash", UsernameToken{Username: "ben", Password: "hidde"}, false},
		{"unknown user", UsernameToken{Username: "eve", Password: "secret"}, false},
		{"no user", UsernameToken{Password: "secret"}, false},
		{"no password", UsernameToken{Username: "ann"}, false},
		{"the hash itself", UsernameToken{Username: "ben", Password: "$2"}, false},
		{"digest", UsernameToken{"ann", digest("n1", stamp(0), "secret"), passwordDigest, b64("n1"), stamp(0)}, true},
		{"digest of the future, a little", UsernameToken{"ann", digest("n2", stamp(30*time.Second), "secret"), passwordDigest, b64("n2"), stamp(30 * time.Second)}, true},
		{"digest of the future", UsernameToken{"ann", digest("n2", stamp(time.Hour), "secret"), passwordDigest, b64("n2"), stamp(time.Hour)}, false},
		{"old digest", UsernameToken{"ann", digest("n2", stamp(-6*time.Minute), "secret"), passwordDigest, b64("n2"), stamp(-6 * time.Minute)}, false},
		{"wrong digest", UsernameToken{"ann", digest("n2", stamp(0), "x"), passwordDigest, b64("n2"), stamp(0)}, false},
		{"digest without nonce", UsernameToken{"ann", digest("", stamp(0), "secret"), passwordDigest, "", stamp(0)}, false},
		{"digest without created", UsernameToken{"ann", digest("n2", "", "secret"), passwordDigest, b64("n2"), ""}, false},
		{"digest of a hashed user", UsernameToken{"ben", digest("n2", stamp(0), "hidden"), passwordDigest, b64("n2"), stamp(0)}, false},
		{"digest of an unknown user", UsernameToken{"eve", digest("n2", stamp(0), ""), passwordDigest, b64("n2"), stamp(0)}, false},
		{"digest, nonce not base64", UsernameToken{"ann", digest("!", stamp(0), "secret"), passwordDigest, "!", stamp(0)}, false},
		{"old text", UsernameToken{Username: "ann", Password: "secret", Created: stamp(-time.Hour)}, false},
		{"created without a zone", UsernameToken{Username: "ann", Password: "secret", Created: "2026-03-01T11:59:00.25"}, true},
		{"created is no time", UsernameToken{Username: "ann", Password: "secret", Created: "noon"}, false},
		{"another type", UsernameToken{Username: "ann", Password: "secret", PasswordType: "urn:x"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := ReadUsernames(strings.NewReader("ann:secret\nben:" + hashOf(t, "hidden") + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			err = u.check(&tt.tok, now)
			if (err == nil) != tt.ok {
				t.Fatalf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has a secret: %v", err)
			}
			if tt.ok && tt.tok.Nonce != "" {
				if err := u.check(&tt.tok, now.Add(time.Minute)); err == nil {
					t.Error("the same nonce was taken twice")
				}
			}
		})
	}
}

func TestNoUsernameToken(t *testing.T) {
	u, err := ReadUsernames(strings.NewReader("ann:secret"))
	if err != nil {
		t.Fatal(err)
	}
	g := mustNew(t, Options{Usernames: u})
	if _, open, denial := g.Enter(from("192.0.2.1")); !open || denial != nil {
		t.Fatalf("got %v %v, want open", open, denial)
	}
	if _, err := g.Username(nil); err == nil {
		t.Error("no token was taken")
	}
	if name, err := g.Username(&UsernameToken{Username: "ann", Password: "secret"}); name != "wss:ann" || err != nil {
		t.Errorf("got %q %v", name, err)
	}
}
