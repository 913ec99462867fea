//go:build !linux

package faultlab

import "testing"

func withoutStrace(*storm) string { return "errors are injected on Linux" }

func (*storm) failStore(string, bool) {}

func syncingNothing(*testing.T) {}
