//go:build !unix

package casetest

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }

func isRead(string) bool { return false }
