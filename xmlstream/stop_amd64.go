//go:build amd64 && !purego

package xmlstream

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// stopAVX2 returns the index of the first of the n octets at p that stops by t,
// n if none does. n is at least 32. Written by internal/tools/asm.
//
//go:noescape
func stopAVX2(p *byte, n int, t *[32]uint8) int
