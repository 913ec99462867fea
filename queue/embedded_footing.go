package queue

import "errors"

const (
	// footingBelow is how much must be free for a removal to do without a footing:
	// what a stranger cannot take while one removal lasts.
	footingBelow = 256 << 20
	// footingSize is what a footing reserves: the notes of 8,000 removals, half a
	// block of small messages. (When more than half goes the block is written anew.)
	footingSize = 256 << 10
)

// footing makes sure that the server can note on a disk that is nearly full what it
// removes from a stream. The error is that of a full disk, and wraps [ErrNoRoom].
//
// A removal ends with a note for each message at the end of the newest
// block. If that write fails the server waits for itself for ever, see brim, and to
// look for room before it would not do: a stranger may take it in between. So the
// room is given to the block itself, behind its end, where nobody else can take it.
// A filesystem that cannot do that, and a system other than Linux, have the look only.
func (s *Embedded) footing(stream string) error {
	free, err := s.opt.free(s.dir)
	if err != nil || free >= footingBelow {
		return nil
	}
	blocks, err := blockFiles(s.dir, stream)
	if err != nil || len(blocks) == 0 {
		return nil // the server will tell
	}
	if err := reserveBehind(blocks[len(blocks)-1].path, footingSize); errors.Is(err, ErrNoRoom) {
		return err
	}
	return nil
}
