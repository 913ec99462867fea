package guard

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"soapway/internal/field"
)

func mustNew(t *testing.T, opt Options) *Guard {
	t.Helper()
	g, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func from(addr string, fields ...string) *Caller {
	c := &Caller{Addr: netip.MustParseAddr(addr), Header: field.List{}}
	for i := 0; i < len(fields); i += 2 {
		c.Header.Add(fields[i], fields[i+1])
	}
	return c
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	b, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestAllow(t *testing.T) {
	g := mustNew(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}})
	for addr, want := range map[string]bool{
		"192.0.2.200": true, "192.0.3.1": false, "2001:db8:1::1": true, "2001:db9::1": false,
		"::ffff:192.0.2.1": true, "2001:db8::1%eth0": true,
	} {
		_, _, denial := g.Enter(from(addr))
		if got := denial == nil; got != want {
			t.Errorf("%s: got in %v, want %v", addr, got, want)
		}
		if denial != nil && denial.Status != http.StatusForbidden {
			t.Errorf("%s: got status %d, want 403", addr, denial.Status)
		}
	}
}

func TestProof(t *testing.T) {
	passwords, err := ReadPasswords(strings.NewReader("# users\n\nann:" + hashOf(t, "pw:1") + "\nбен:" + hashOf(t, "ключ") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := ReadTokens(strings.NewReader("tok-1\n# none\nerp tok-2\n"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := NewTokens([]string{"k1", "k2"})
	if err != nil {
		t.Fatal(err)
	}
	g := mustNew(t, Options{Basic: passwords, Bearer: tokens, Keys: keys, KeyHeader: "X-Key"})
	for _, tt := range []struct {
		name   string
		fields []string
		want   string // "" = refused
	}{
		{"nothing", nil, ""},
		{"basic", []string{"Authorization", basic("ann", "pw:1")}, "basic:ann"},
		{"basic again", []string{"Authorization", basic("ann", "pw:1")}, "basic:ann"},
		{"basic, UTF-8", []string{"Authorization", basic("бен", "ключ")}, "basic:бен"},
		{"basic, scheme in lower case", []string{"Authorization", strings.Replace(basic("ann", "pw:1"), "Basic", "basic", 1)}, "basic:ann"},
		{"wrong password", []string{"Authorization", basic("ann", "pw")}, ""},
		{"unknown user", []string{"Authorization", basic("eve", "pw:1")}, ""},
		{"password that is too long", []string{"Authorization", basic("ann", "pw:1"+strings.Repeat("x", 80))}, ""},
		{"not base64", []string{"Authorization", "Basic %%%"}, ""},
		{"no colon", []string{"Authorization", "Basic YW5u"}, ""},
		{"bearer", []string{"Authorization", "Bearer tok-1"}, "bearer:1"},
		{"bearer with a name", []string{"Authorization", "Bearer tok-2"}, "bearer:erp"},
		{"wrong bearer", []string{"Authorization", "Bearer tok-3"}, ""},
		{"empty bearer", []string{"Authorization", "Bearer "}, ""},
		{"key", []string{"X-Key", "k2"}, "key:2"},
		{"wrong key", []string{"X-Key", "k3"}, ""},
		{"wrong bearer and a good key", []string{"Authorization", "Bearer no", "X-Key", "k1"}, "key:1"},
		{"a scheme that is not ours", []string{"Authorization", "Digest username=ann"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := from("192.0.2.1", tt.fields...)
			name, open, denial := g.Enter(c)
			if name != tt.want || open {
				t.Errorf("Enter: got %q %v, want %q", name, open, tt.want)
			}
			if (denial == nil) != (tt.want != "") {
				t.Fatalf("Enter: got denial %v", denial)
			}
			if got := g.Screen(c); (got == nil) != (denial == nil) {
				t.Errorf("Screen: got %v, Enter %v", got, denial)
			}
			if denial == nil {
				return
			}
			want := []string{`Basic realm="gateway", charset="UTF-8"`, `Bearer realm="gateway"`, `ApiKey realm="gateway", header="X-Key"`}
			if denial.Status != http.StatusUnauthorized || !slices.Equal(denial.Challenges, want) {
				t.Errorf("got %d %q", denial.Status, denial.Challenges)
			}
			if strings.Contains(denial.Error(), "pw") || strings.Contains(denial.Error(), "tok") {
				t.Errorf("the reason has a secret: %s", denial.Error())
			}
		})
	}
}

func TestFiles(t *testing.T) {
	h := hashOf(t, "x")
	for _, tt := range []struct {
		name string
		read func(string) error
		text string
		want string
	}{
		{"no colon", readPasswords, "ann", "line 1: want user:hash"},
		{"md5", readPasswords, "# c\nann:$apr1$abc", `line 2: user "ann" has no bcrypt hash (htpasswd -B makes one)`},
		{"twice", readPasswords, "ann:" + h + "\nann:" + h, `line 2: user "ann" is there twice`},
		{"empty", readPasswords, "\n#\n", "has no users"},
		{"a line without end", readPasswords, strings.Repeat("x", maxLine+1), "cannot be read: bufio.Scanner: token too long"},
		{"three words", readTokens, "a b c", "line 1: want a token, or a name and a token"},
		{"token twice", readTokens, "a t\nb t", "line 2: is there twice"},
		{"no tokens", readTokens, "", "has no tokens"},
		{"no password", readUsernames, "ann:", "line 1: want user:password"},
		{"user twice", readUsernames, "ann:" + h + "\nann:a", `user "ann" is there twice`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.read(tt.text)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func readPasswords(s string) error { _, err := ReadPasswords(strings.NewReader(s)); return err }
func readTokens(s string) error    { _, err := ReadTokens(strings.NewReader(s)); return err }
func readUsernames(s string) error { _, err := ReadUsernames(strings.NewReader(s)); return err }

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Rate: Rate{10, time.Second}})
		c := from("192.0.2.1")
		sent := func() (n int) {
			for {
				if _, _, denial := g.Enter(c); denial != nil {
					if denial.Status != http.StatusTooManyRequests || denial.After <= 0 || denial.After > 100*time.Millisecond {
						t.Fatalf("got %d, come again after %v", denial.Status, denial.After)
					}
					return n
				}
				g.Leave()
				n++
			}
		}
		if n := sent(); n != 10 {
			t.Errorf("at once: got %d, want 10", n)
		}
		time.Sleep(99 * time.Millisecond)
		if n := sent(); n != 0 {
			t.Errorf("after 99 ms: got %d, want none", n)
		}
		time.Sleep(201 * time.Millisecond)
		if n := sent(); n != 3 {
			t.Errorf("after 300 ms: got %d, want 3", n)
		}
		time.Sleep(time.Hour)
		if n := sent(); n != 10 {
			t.Errorf("after an hour: got %d, want 10", n)
		}
	})
}

func TestRatePerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := NewTokens([]string{"k1", "k2"})
		if err != nil {
			t.Fatal(err)
		}
		g := mustNew(t, Options{PerClient: Rate{2, time.Minute}, Keys: tokens, KeyHeader: "X-Key"})
		status := func(c *Caller) int {
			_, _, denial := g.Enter(c)
			if denial != nil {
				return denial.Status
			}
			g.Leave()
			return 200
		}
		for i, tt := range []struct {
			c    *Caller
			want int
		}{
			{from("192.0.2.1", "X-Key", "k1"), 200},
			{from("192.0.2.2", "X-Key", "k1"), 200},
			{from("192.0.2.3", "X-Key", "k1"), 429}, // the same caller, wherever it is
			{from("192.0.2.3", "X-Key", "k2"), 200},
			{from("192.0.2.4", "X-Key", "no"), 401}, // guesses count as well
			{from("192.0.2.4", "X-Key", "nono"), 401},
			{from("192.0.2.4", "X-Key", "nonono"), 429},
			{from("2001:db8::1", "X-Key", "no"), 401},
			{from("2001:db8::2", "X-Key", "no"), 401},
			{from("2001:db8::3", "X-Key", "no"), 429}, // one network
			{from("2001:db8:0:1::3", "X-Key", "no"), 401},
		} {
			if got := status(tt.c); got != tt.want {
				t.Errorf("call %d: got %d, want %d", i+1, got, tt.want)
			}
		}
		time.Sleep(time.Minute)
		if got := status(from("192.0.2.4", "X-Key", "k1")); got != 200 {
			t.Errorf("a minute later: got %d, want 200", got)
		}
	})
}

// TestClientsBounded counts more callers than are kept.
func TestClientsBounded(t *testing.T) {
	l := newLimiters(Rate{1, time.Minute}, 160)
	for i := range 10_000 {
		l.take(string(rune(i)), time.Duration(i))
	}
	n := 0
	for i := range l.shards {
		n += len(l.shards[i].due)
	}
	if n > 160 {
		t.Errorf("got %d callers kept, want at most 160", n)
	}
	if wait := l.take(string(rune(9999)), 10_000); wait == 0 {
		t.Error("the last caller was forgotten")
	}
}

func TestConcurrency(t *testing.T) {
	g := mustNew(t, Options{Concurrency: 2})
	c := from("192.0.2.1")
	enter := func() int {
		_, _, denial := g.Enter(c)
		if denial != nil {
			return denial.Status
		}
		return 0
	}
	if a, b, c := enter(), enter(), enter(); a != 0 || b != 0 || c != http.StatusServiceUnavailable {
		t.Fatalf("got %d %d %d", a, b, c)
	}
	g.Leave()
	if got := enter(); got != 0 {
		t.Errorf("after one has left: got %d", got)
	}
	if got := enter(); got != http.StatusServiceUnavailable {
		t.Errorf("a refused one counted: got %d", got)
	}
}

func TestNilGuard(t *testing.T) {
	var g *Guard
	if _, open, denial := g.Enter(from("192.0.2.1")); open || denial != nil {
		t.Errorf("got %v %v", open, denial)
	}
	g.Leave()
}

func TestOptions(t *testing.T) {
	keys, err := NewTokens([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]Options{
		"negative rate": {Rate: Rate{-1, time.Second}}, "no time": {PerClient: Rate{1, 0}}, "too fast": {Rate: Rate{2, 1}},
		"negative concurrency": {Concurrency: -1}, "keys without a field": {Keys: keys}, "a field without keys": {KeyHeader: "X"},
	} {
		if _, err := New(opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
