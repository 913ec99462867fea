//go:build !linux

package bench

import "os"

// DescribeMachine fills in what the system tells of itself; what it does not tell
// stays empty.
func DescribeMachine(e *Env) { e.Host, _ = os.Hostname() }
