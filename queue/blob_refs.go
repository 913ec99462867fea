package queue

import "sync"

// blobRefs knows which blobs are needed. A blob is needed by its writer, by each
// Put and Bury under way, and by each record that claims it: while a message
// becomes a dead letter, or waits again, two records have it in common. What
// nobody needs is removed, but not before all records are known.
type blobRefs struct {
	mu       sync.Mutex
	needed   map[string]int    // by name; never 0
	inLog    map[uint64]string // of the records that are known, by sequence number
	inDead   map[string]string // by id
	logRead  bool              // all records of the log from before this run are known
	deadRead bool              // so are those of dead letters
}

func newBlobRefs() blobRefs {
	return blobRefs{needed: map[string]int{}, inLog: map[uint64]string{}, inDead: map[string]string{}}
}

// begin takes up a blob that is new.
func (r *blobRefs) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needed[name] = 1
}

// hold needs a blob once more; false if nobody does, and it may be gone.
func (r *blobRefs) hold(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed[name] == 0 {
		return false
	}
	r.needed[name]++
	return true
}

// release needs a blob once less, and reports whether it is to be removed.
func (r *blobRefs) release(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop(name)
}

// drop is release. It must be called with mu held.
func (r *blobRefs) drop(name string) bool {
	if r.needed[name]--; r.needed[name] > 0 {
		return false
	}
	delete(r.needed, name)
	return r.logRead && r.deadRead // else what is still unread may claim it: sweep looks later
}

// has reports whether anybody needs a blob.
func (r *blobRefs) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.needed[name] > 0
}

// logged gives what a Put held to its record.
func (r *blobRefs) logged(seq uint64, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inLog[seq] = name
}

// foundInLog takes up a record from before this run.
func (r *blobRefs) foundInLog(seq uint64, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.inLog[seq]; known || r.logRead {
		return
	}
	r.inLog[seq] = name
	r.needed[name]++
}

// leftLog forgets a record of the log. gone says that the blob is to be removed.
func (r *blobRefs) leftLog(seq uint64) (name string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.inLog[seq]
	if !ok {
		return "", false
	}
	delete(r.inLog, seq)
	return name, r.drop(name)
}

// inTheLog reports whether a record of the log has a blob.
func (r *blobRefs) inTheLog(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.inLog[seq]
	return ok
}

// buried gives what a Bury held to its record, which replaces an older one of
// that id. name is "" for a dead letter without a blob.
func (r *blobRefs) buried(id, name string) (old string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, had := r.inDead[id]
	if name == "" {
		delete(r.inDead, id)
	} else {
		r.inDead[id] = name
	}
	return old, had && r.drop(old)
}

// foundDead takes up a dead letter from before this run; of two with one id the
// later counts.
func (r *blobRefs) foundDead(id, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.inDead[id]
	if r.deadRead || known && old == name {
		return
	}
	if known {
		r.drop(old)
		delete(r.inDead, id)
	}
	if name != "" {
		r.inDead[id] = name
		r.needed[name]++
	}
}

// unburied forgets a dead letter.
func (r *blobRefs) unburied(id string) (name string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.inDead[id]
	if !ok {
		return "", false
	}
	delete(r.inDead, id)
	return name, r.drop(name)
}

// read notes that all records of the log, or all dead letters, are known. It
// returns true once, when that is so of both.
func (r *blobRefs) read(log, dead bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.logRead && r.deadRead
	r.logRead, r.deadRead = r.logRead || log, r.deadRead || dead
	return !before && r.logRead && r.deadRead
}
