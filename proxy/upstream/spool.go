package upstream

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// A spool keeps octets in memory up to a bound and beyond it in a file that has
// no name any more, so that the disk gets it back when it is closed, whatever
// happens to the process.
type spool struct {
	mem  bytes.Buffer
	file *os.File
	size int64
}

// newSpool takes everything from r; hint is how much that will be, or -1. A
// failed spool needs no Close.
func newSpool(r io.Reader, bound int, hint int64) (*spool, error) {
	s := new(spool)
	if hint > 0 && hint <= int64(bound) {
		s.mem.Grow(int(hint) + bytes.MinRead)
	}
	n, err := s.mem.ReadFrom(io.LimitReader(r, int64(bound)+1))
	s.size = n
	if err != nil || n <= int64(bound) {
		return s, err
	}
	if s.file, err = os.CreateTemp("", "soapway-*"); err != nil {
		return nil, err
	}
	err = os.Remove(s.file.Name())
	if err == nil {
		_, err = s.file.Write(s.mem.Bytes())
	}
	if err == nil {
		s.mem = bytes.Buffer{}
		n, err = io.Copy(s.file, r)
		s.size += n
	}
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

func (s *spool) Read(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Read(p)
	}
	return s.mem.Read(p)
}

func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
