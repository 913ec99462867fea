//go:build race

package proxy

// raceEnabled: under the race detector a sync.Pool drops part of what it is given.
const raceEnabled = true
