package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"soapway/config"
	"soapway/internal/admin"
	"soapway/internal/telemetry"
	"soapway/queue"
)

// shut is a store that has been closed for lack of room.
type shut struct{ queue.Store }

func (shut) SetKeys(*queue.Keys) error { return queue.ErrClosed }

// TestKeysOfAClosedStore: while a store is closed for lack of room a reload takes
// the keys that it can be opened with, and no others.
func TestKeysOfAClosedStore(t *testing.T) {
	const keyA, keyB = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90", "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
	dir := t.TempDir()
	needed, err := queue.ParseKeys(keyA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "store.json"), fmt.Appendf(nil, `{"format":3,"id":"x","streams":true,"keys":[%q]}`, needed.ID()), 0o600); err != nil {
		t.Fatal(err)
	}
	depot := newDepot(telemetry.NewLog(&lockedBuffer{}).Logger(), telemetry.NewMetrics(), telemetry.NewHistory(), new(admin.Events), nil)
	depot.present.Store(&stock{store: shut{}})
	for _, c := range []struct {
		keys, want string
	}{
		{keyB + "\n" + keyA, ""},
		{keyB, "wrong or missing encryption key"},
		{keyA[:10], "a key is 32 octets"},
		{"none\n" + keyA, ""},
	} {
		key := filepath.Join(t.TempDir(), "key")
		write(t, key, c.keys)
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		write(t, file, head+fmt.Sprintf("store: {dir: %q, durability: relaxed, encryption_key: \"file:%s\"}\nroutes:\n", dir, key)+queueRoute("orders", "http://127.0.0.1:1/"))
		cfg, err := config.Load(file, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		problems := depot.rekey(cfg)
		if c.want == "" && (problems != nil || !depot.present.Load().keys.Equal(cfg.Store.EncryptionKey)) || c.want != "" && !strings.Contains(fmt.Sprint(problems), c.want) {
			t.Errorf("%d lines: got %v, want %q", strings.Count(c.keys, "\n")+1, problems, c.want)
		}
		if strings.Contains(fmt.Sprint(problems), c.keys[:10]) {
			t.Errorf("a problem shows a key: %v", problems)
		}
	}
}
