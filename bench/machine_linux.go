package bench

import (
	"os"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// DescribeMachine fills in what the system tells of itself; what it does not tell
// stays empty.
func DescribeMachine(e *Env) {
	e.Host, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		e.CPU = strings.Join(strings.Fields(cpus[0].ModelName), " ")
	}
}
