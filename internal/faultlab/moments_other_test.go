//go:build !linux

package faultlab

import (
	"errors"
	"net"
	"path/filepath"
	"time"
)

// A watch waits for something to happen in a directory; there is one on Linux.
type watch struct{}

const (
	isWritten = 1
	isRemoved = 2
)

func watchDir(string, uint32) (*watch, error) { return nil, errors.ErrUnsupported }

func (*watch) wait(time.Duration) bool { return false }

func hungUp(net.Conn) bool { return false }

func messagesOf(store, stream string) string { return filepath.Join(store, stream) }
