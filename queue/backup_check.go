package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// CheckBackup reads a backup to its end and returns what it is of and what it
// contains. A [*BackupError] says where it is not what it should be; damaged,
// which may be nil, is called for the places that the store's own backup lacks.
func CheckBackup(r io.Reader, damaged func(Damage)) (head BackupHead, counts BackupCounts, err error) {
	return readBackup(r, backupVisitor{damaged: damaged})
}

// backupVisitor is told what is in a backup; each function may be nil. Slices are
// valid during the call only.
type backupVisitor struct {
	record  func(r record) error
	file    func(f backupFile) error
	chunk   func(b []byte) error
	damaged func(Damage)
}

// readBackup reads a backup and checks all that can be checked of it.
func readBackup(r io.Reader, v backupVisitor) (head BackupHead, counts BackupCounts, err error) {
	br, err := newBackupReader(r)
	if err != nil {
		return head, counts, err
	}
	c := backupCheck{br: br, visit: v}
	for {
		at := br.offset
		kind, p, err := br.next()
		if err == io.EOF {
			if !c.ended {
				return c.head, counts, br.fail(ErrBackupCut, "there is no end")
			}
			return c.head, c.end, nil
		}
		if err != nil {
			return c.head, counts, err
		}
		if err := c.take(kind, p); err != nil {
			if _, ours := errors.AsType[*BackupError](err); !ours && c.invalid {
				err = &BackupError{at, err}
			}
			return c.head, counts, err
		}
	}
}

// backupCheck follows the order of the frames.
type backupCheck struct {
	br      *backupReader
	visit   backupVisitor
	head    BackupHead
	begun   bool
	ended   bool
	end     BackupCounts
	got     BackupCounts
	open    int64 // octets of the current file that are to come
	invalid bool  // the last error is about the backup, not of a visitor
}

func (c *backupCheck) bad(kind error, format string, args ...any) error {
	c.invalid = true
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

func (c *backupCheck) take(kind byte, p []byte) error {
	switch {
	case c.ended:
		return c.bad(ErrBackupDamaged, "there is more behind its end")
	case !c.begun && kind != frameHead:
		return c.bad(ErrBackupDamaged, "it does not begin with its head")
	case c.open > 0 && kind != frameChunk && kind != frameBroken:
		return c.bad(ErrBackupDamaged, "a file in it is %d octets short", c.open)
	}
	switch kind {
	case frameHead:
		return c.takeHead(p)
	case frameRecord:
		return c.takeRecord(p)
	case frameFile:
		return c.takeFile(p)
	case frameChunk:
		if int64(len(p)) > c.open {
			return c.bad(ErrBackupDamaged, "a file in it is longer than it says")
		}
		c.open -= int64(len(p))
		c.got.Octets += uint64(len(p))
		if c.visit.chunk != nil {
			return c.visit.chunk(p)
		}
	case frameDamage:
		var d Damage
		if err := json.Unmarshal(p, &d); err != nil {
			return c.bad(ErrBackupDamaged, "%v", err)
		}
		if c.visit.damaged != nil {
			c.visit.damaged(d)
		}
	case frameBroken:
		return c.bad(ErrBackupCut, "it was broken off: %s", p)
	case frameEnd:
		if err := json.Unmarshal(p, &c.end); err != nil {
			return c.bad(ErrBackupDamaged, "%v", err)
		}
		c.got.Damaged = c.end.Damaged // only the first are listed
		if c.got != c.end {
			return c.bad(ErrBackupDamaged, "it contains %+v and should contain %+v", c.got, c.end)
		}
		c.ended = true
	default:
		return c.bad(ErrNoBackup, "a part of kind %q: use a newer version", kind)
	}
	return nil
}

func (c *backupCheck) takeHead(p []byte) error {
	if c.begun {
		return c.bad(ErrBackupDamaged, "it has two heads")
	}
	if err := json.Unmarshal(p, &c.head); err != nil {
		return c.bad(ErrBackupDamaged, "%v", err)
	}
	if c.head.Format != BackupFormat || c.head.Store == "" {
		return c.bad(ErrNoBackup, "it has format %d, this program knows %d (use a newer one)", c.head.Format, BackupFormat)
	}
	c.begun = true
	return nil
}

func (c *backupCheck) takeRecord(p []byte) error {
	r, err := parseRecord(p)
	if err == nil && r.name != headerSealed { // a sealed one has its checksum inside
		err = verify(r.header, r.data)
	}
	if err != nil {
		return c.bad(ErrBackupDamaged, "%v", err)
	}
	c.got.Octets += uint64(len(p))
	switch {
	case !slices.Contains(recordHeaders, r.name):
		return c.bad(ErrNoBackup, "a record with %.60q: use a newer version", r.name)
	case strings.HasPrefix(r.subject, subjectLog):
		c.got.Messages++
	case strings.HasPrefix(r.subject, subjectDead):
		c.got.Dead++
	case strings.HasPrefix(r.subject, subjectReply):
		c.got.Replies++
	case backedUp(r.subject):
		c.got.States++
	default:
		return c.bad(ErrNoBackup, "a record on %.60q: use a newer version", r.subject)
	}
	if c.visit.record != nil {
		return c.visit.record(r)
	}
	return nil
}

func (c *backupCheck) takeFile(p []byte) error {
	var f backupFile
	if err := json.Unmarshal(p, &f); err != nil {
		return c.bad(ErrBackupDamaged, "%v", err)
	}
	if f.Size < 0 || !fs.ValidPath(f.Path) || !slices.Contains(backupDirs, strings.SplitN(f.Path, "/", 2)[0]) {
		return c.bad(ErrNoBackup, "a file %.60q: use a newer version", f.Path)
	}
	c.open = f.Size
	c.got.Files++
	if c.visit.file != nil {
		return c.visit.file(f)
	}
	return nil
}

// backupDirs are the directories of a store, beside its streams, that a backup
// has files of.
var backupDirs = []string{"blobs"}
