//go:build !linux

package faultlab

func withoutStrace(*storm) string { return "errors are injected on Linux" }

func (*storm) failStore(string, bool) {}
