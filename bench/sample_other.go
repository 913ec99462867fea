//go:build !linux

package bench

import "errors"

// NewSampler fails where the system does not tell what processes use: rows then
// have no costs, and others on the machine go unnoticed.
func NewSampler() (Sampler, error) {
	return nil, errors.New("bench: what processes use is known on Linux only")
}

// ReadMemory fails for the same reason.
func ReadMemory(int) (Memory, error) {
	return Memory{}, errors.New("bench: what processes have in memory is known on Linux only")
}
