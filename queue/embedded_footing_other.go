//go:build !linux

package queue

import "errors"

func reserveBehind(string, int64) error { return errors.ErrUnsupported }
