package queue

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// keyring looks after what the store is sealed with. What is written is sealed
// with the key in use. What was written before stays as it is: messages of the
// log, replies, attempts and identities until they are gone; dead letters and
// states, which may stay for ever, are sealed anew, one by one. store.json names
// the keys that are still needed, so that a start without one of them is refused
// before anything is touched; when nothing is left that needs one, it goes from
// there, and the operator may drop it.
type keyring struct {
	s     *Embedded
	renew sync.RWMutex // held while one record is sealed anew; others read-lock it to replace or remove one

	mu   sync.Mutex
	used map[string]bool // was in use at some time of this run, so that something may be sealed with it that no census has seen

	wake chan struct{}
}

// seal takes up the keys that a store is opened with, or refuses them. found
// says that the store has streams already.
func (id *identity) seal(k *Keys, found bool) error {
	for _, need := range id.Keys {
		if need != noKey && !k.has(need) {
			return fmt.Errorf("%w: the store is sealed with key %s, which was not given; nothing was touched", ErrKey, cut(need, 40))
		}
	}
	if len(id.Keys) == 0 && !k.Sealing() {
		return nil
	}
	use := noKey
	if k.Sealing() {
		use = k.ID()
	}
	if len(id.Keys) == 0 && found {
		id.Keys = []string{noKey}
	}
	if !slices.Contains(id.Keys, use) {
		id.Keys = append(slices.Clone(id.Keys), use)
	}
	id.Format = formatSealed
	return nil
}

// sealedBy names the keys that records of the store may be sealed with.
func (id identity) sealedBy() []string {
	return slices.DeleteFunc(slices.Clone(id.Keys), func(k string) bool { return k == noKey })
}

// CheckKeys says with [ErrKey] that the store in dir could not be opened with
// these keys. It changes nothing, and has nothing to say where there is no store.
func CheckKeys(dir string, k *Keys) error {
	if _, err := os.Stat(filepath.Join(dir, identityName)); err != nil {
		return nil // a start makes one, or tells more
	}
	id, err := readIdentity(dir)
	if err != nil {
		return nil
	}
	return id.seal(k, true)
}

// identity changes store.json.
func (s *Embedded) identity(change func(*identity)) error {
	s.identify.Lock()
	defer s.identify.Unlock()
	id := s.id
	change(&id)
	if err := id.write(s.dir); err != nil {
		return fmt.Errorf("queue: %s: %w", identityName, err)
	}
	s.id = id
	return nil
}

func (s *Embedded) idNow() identity {
	s.identify.Lock()
	defer s.identify.Unlock()
	return s.id
}

// openKeys looks at the latest record of each stream: where store.json was lost,
// nothing else tells that a key is missing.
func (s *Embedded) openKeys() error {
	k := s.opt.Keys
	s.keys.s, s.keys.wake, s.keys.used = s, make(chan struct{}, 1), map[string]bool{noKey: !k.Sealing(), k.ID(): true}
	for _, name := range s.streams() {
		i, err := s.js.info(name)
		if err != nil {
			return err
		}
		for _, seq := range []uint64{i.State.First, i.State.Last} {
			if _, err := s.js.get(name, seq, ""); errors.Is(err, ErrKey) {
				return fmt.Errorf("%w (%s)", err, s.dir)
			}
		}
	}
	if k.Sealing() {
		s.opt.Log.Info("the store is sealed", "dir", s.dir, "key", k.ID())
	}
	s.keys.poke()
	return nil
}

// SetKeys changes the keys of an open store. It fails with [ErrKey] if one is
// missing that the store still needs, and then nothing has changed.
func (s *Embedded) SetKeys(k *Keys) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	next := s.idNow()
	if err := next.seal(k, true); err != nil {
		return err
	}
	if err := s.identity(func(id *identity) { id.Keys, id.Format = next.Keys, next.Format }); err != nil {
		return err
	}
	s.keys.used[k.ID()] = true
	s.keys.used[noKey] = s.keys.used[noKey] || !k.Sealing()
	// Not in the middle of a SaveState: a state sealed with this key under the name that
	// it has by the older one would not be found when that key is gone.
	s.keys.renew.Lock()
	s.js.keys.Store(k)
	s.keys.renew.Unlock()
	s.opt.Log.Info("the keys of the store have changed", "dir", s.dir, "key", k.ID())
	s.keys.poke()
	return nil
}

// sizeOf is about how many octets a record takes in its stream.
func (s *Embedded) sizeOf(r *record) int {
	return recordOverhead + len(r.subject) + len(r.name) + len(r.header) + len(r.data) + s.js.keys.Load().sealedSize(r)
}

func (r *keyring) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run takes the census at the start, and whenever the keys have changed.
func (r *keyring) run() {
	for {
		select {
		case <-r.wake:
		case <-r.s.life.Done():
			return
		case <-r.s.failed:
			return
		}
		if r.s.opt.Inspect || !r.needsCensus() {
			continue
		}
		if err := r.census(); err != nil && r.s.life.Err() == nil && r.s.usable() == nil {
			r.s.opt.Log.Warn("what the store is sealed with could not be counted", "err", err)
		}
	}
}

// needsCensus says whether anything may be sealed with another key than the one in use.
func (r *keyring) needsCensus() bool {
	return len(r.s.idNow().Keys) > 1
}

// census seals anew what may stay for ever, counts what is left that another
// key than the one in use was used for, and takes from store.json those that
// nothing needs.
func (r *keyring) census() error {
	s := r.s
	if err := r.renewDead(); err != nil {
		return err
	}
	if err := r.renewStates(); err != nil {
		return err
	}
	left := map[string]int{}
	count := func(m scanned) error {
		if m.sealed != "" && !inClear(m.subject) {
			left[m.sealed]++
		}
		if c := claimed(&m); c != nil {
			left[cmp.Or(c.key, noKey)]++ // its file stays as it was written
		}
		return nil
	}
	for _, name := range s.streams() {
		if err := s.js.heads(r.s.life, name, 1, count); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := s.identity(func(id *identity) {
		id.Keys = slices.DeleteFunc(slices.Clone(id.Keys), func(k string) bool { return left[k] == 0 && !r.used[k] })
		if slices.Equal(id.Keys, []string{noKey}) {
			id.Keys, id.Format = nil, Format // as if nothing had ever been sealed
		}
	})
	if err != nil {
		return err
	}
	for k, n := range left {
		if use := s.js.keys.Load(); k != use.ID() && (k != noKey || use.Sealing()) {
			s.opt.Log.Info("records are sealed with a key that is not in use any more: it must stay in the key file until they are gone", "dir", s.dir, "key", k, "records", n)
		}
	}
	s.opt.Log.Info("keys that the store needs", "dir", s.dir, "keys", strings.Join(s.idNow().Keys, " "))
	return nil
}

// claimed is what a record claims, nil for nothing.
func claimed(m *scanned) *claim {
	if _, body, err := decodeHead(m.header(headerMessage)); err == nil {
		return body.blob
	}
	if h, err := decodeDeadHead(m.header(headerDead)); err == nil {
		return h.body.blob
	}
	return nil
}

// stale says whether a record was sealed with another key than the one in use.
func (r *keyring) stale(sealed string) bool {
	use := r.s.js.keys.Load()
	return sealed != "" && (use.Sealing() && sealed != use.ID() || !use.Sealing() && sealed != noKey)
}

// staleBody is stale for a body that is a file; c is nil for one that is not.
func (r *keyring) staleBody(c *claim) bool {
	return c != nil && r.stale(cmp.Or(c.key, noKey))
}

// renewDead seals dead letters anew.
func (r *keyring) renewDead() error {
	var ids []string
	err := r.s.js.heads(r.s.life, streamDead, 1, func(m scanned) error {
		h, err := decodeDeadHead(m.header(headerDead))
		if err == nil && (r.stale(m.sealed) || r.staleBody(h.body.blob)) {
			ids = append(ids, h.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := r.again(func() error {
			d, err := r.s.Dead(id)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
				return nil
			}
			if err != nil {
				return err
			}
			if b, ok := d.Blob.(*storedBlob); ok && r.staleBody(&b.claim) {
				d.Blob = struct{ Blob }{b} // as one from elsewhere it is copied, and the copy is sealed anew
			}
			return r.s.bury(r.s.life, d)
		}); err != nil {
			return err
		}
	}
	return nil
}

// renewStates seals states anew, under their new names.
func (r *keyring) renewStates() error {
	var names []string
	err := r.s.js.values(r.s.life, subjectState+"*", func(m scanned) error {
		if r.stale(m.sealed) {
			if name, err := decodeValue(m.header(headerValue), m.msg.Data); err == nil {
				names = append(names, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.again(func() error {
			v, err := r.s.State(name)
			if errors.Is(err, ErrCorrupt) || err == nil && len(v) == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			return r.s.saveState(r.s.life, name, v)
		}); err != nil {
			return err
		}
	}
	return nil
}

// again runs f while nobody replaces or removes what it writes anew.
func (r *keyring) again(f func() error) error {
	r.renew.Lock()
	defer r.renew.Unlock()
	return f()
}
