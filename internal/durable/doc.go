// Package durable replaces small files so that a crash or a power cut leaves the
// old content or the new, and nothing in between.
package durable
