package app

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"soapway/config"
)

// Lines of a file as htpasswd -B writes it, for pass-one and pass-two.
const (
	annOne = "ann:$2a$04$UfLW1eQF/2ei8vyVKo8zk.BJjQAwVlQPRkOHaDEUt4AtGI8efyzsW\n"
	benTwo = "ben:$2a$04$pu2m2NsmwqG.A8XAFwLrIO.0122GOHCUloopY72ZtouuxweubLYpS\n"
)

// TestGuards: who may send is decided by files that may change at any time, and
// a reload that changes nothing about a route forgets nothing of it.
func TestGuards(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	write(t, users, annOne)
	yaml := head + `
routes:
  - {name: users, match: {path: /users}, to: ["builtin:echo"], auth: {basic: "` + users + `"}}
  - {name: rate, match: {path: /rate}, to: ["builtin:echo"], limits: {rate: 2/m}}
  - {name: network, match: {path: /network}, to: ["builtin:echo"], allow: [192.0.2.0/24]}
  - {name: fixed, match: {path: /nowhere}, to: ["builtin:echo"]}
`
	g := start(t, strings.Replace(yaml, "length: 4", "length: 4, route: network", 1))
	post := func(path, user, password string) int {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.addr("web")+path, strings.NewReader(envelope))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/xml")
		if user != "" {
			req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Error("a 401 without WWW-Authenticate")
		}
		return resp.StatusCode
	}
	for _, tt := range []struct {
		path, user, password string
		want                 int
	}{
		{"/users", "", "", 401},
		{"/users", "ann", "pass-two", 401},
		{"/users", "ann", "pass-one", 200},
		{"/network", "", "", 403},
		{"/rate", "", "", 200},
		{"/rate", "", "", 200},
		{"/rate", "", "", 429},
	} {
		if got := post(tt.path, tt.user, tt.password); got != tt.want {
			t.Errorf("%s as %q: got %d, want %d", tt.path, tt.user, got, tt.want)
		}
	}

	c, err := net.Dial("tcp", g.addr("plant"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(envelope))), envelope...))
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(c, reply); err != nil || !strings.Contains(string(reply), "NotAuthorised") {
		t.Errorf("framed: got %s %v, want the fault NotAuthorised", reply, err)
	}

	if err := g.app.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := post("/rate", "", ""); got != 429 {
		t.Errorf("/rate after a reload that changed nothing: got %d, want 429", got)
	}
	write(t, users, benTwo)
	g.eventually("the new users", func() bool { return post("/users", "ben", "pass-two") == 200 })
	if got := post("/users", "ann", "pass-one"); got != 401 {
		t.Errorf("a user that is gone: got %d, want 401", got)
	}
	if strings.Contains(g.log.String(), "pass-") {
		t.Error("the log has a password")
	}
}

func TestGuardFiles(t *testing.T) {
	dir := t.TempDir()
	users, tokens := filepath.Join(dir, "users"), filepath.Join(dir, "tokens")
	write(t, users, "# c\nann:secret\n")
	write(t, tokens, "one two three\n")
	cfg := load(t, head+`
routes:
  - {name: a, match: {path: /a}, to: ["builtin:echo"], auth: {basic: "`+users+`", bearer: "`+tokens+`", api_key: {header: X-Key, keys: [same, same]}}}
`)
	problems, ok := Check(cfg).(config.Problems)
	if !ok || len(problems) != 3 {
		t.Fatalf("Check: got %v, want three problems", problems)
	}
	for i, want := range []string{
		"routes.a.auth.basic: " + users + `: line 2: user "ann" has no bcrypt hash`,
		"routes.a.auth.bearer: " + tokens + ": line 1: want a token",
		"routes.a.auth.api_key.keys: number 2: is there twice",
	} {
		if got := problems[i].String(); !strings.Contains(got, want) || strings.Contains(got, "secret") || problems[i].Line == 0 {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
