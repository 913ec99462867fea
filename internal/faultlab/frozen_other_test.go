//go:build !unix

package faultlab

import (
	"errors"
	"os"
)

func withoutFreezing(*storm) string { return "a process can be stopped on Unix" }

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }
