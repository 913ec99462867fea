package bench

import (
	"runtime"
	"testing"
)

// A peer is asked to end by the end of its input, and by nothing else: a signal
// that comes when it has begun to end, and no longer listens for signals, would
// kill it. The shell of this test never listens.
func TestPeerStops(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell, and there are no such signals")
	}
	lab := NewLab(LabOptions{Command: []string{"sh", "-c", `echo '{"address":"here"}'; cat >/dev/null`}, Dir: t.TempDir()})
	for range 20 {
		p, err := lab.Peer(t.Context(), "raw-http")
		if err != nil {
			t.Fatal(err)
		}
		if p.Ready.Address != "here" {
			t.Errorf("got %+v", p.Ready)
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
