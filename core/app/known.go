package app

import "time"

// knownBox is what is remembered of a box until it is gone.
type knownBox struct {
	backend string
	since   time.Time
	live    bool   // in use here, or waiting; false once it could not be removed: then it is nobody's, and a sweep takes it
	mine    bool   // to be removed before this server ends
	gone    func() // called once it is gone, or left to the sweep; may be nil
}

// remember knows a box as one in use here.
func (b *boxes) remember(backend, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.know(backend, id)
	k.live, k.mine = true, true
}

// know returns what is remembered of a box. The caller holds the lock.
func (b *boxes) know(backend, id string) *knownBox {
	k := b.known[id]
	if k == nil {
		k = &knownBox{backend: backend, since: b.ports.Now()}
		b.known[id] = k
	}
	return k
}

// forget is for a box that is gone.
func (b *boxes) forget(id string) {
	b.release(id, func(*knownBox) { delete(b.known, id) })
}

// leave leaves a box to the sweep.
func (b *boxes) leave(id string) {
	b.release(id, func(k *knownBox) { k.live = false })
}

// release gives back what went with a box, if it is known.
func (b *boxes) release(id string, change func(*knownBox)) {
	b.mu.Lock()
	k := b.known[id]
	if k == nil {
		b.mu.Unlock()
		return
	}
	change(k)
	gone := k.gone
	k.gone = nil
	b.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// whenGone has gone called once the box is gone, or left to the sweep; false if something else is to be called.
func (b *boxes) whenGone(backend, id string, gone func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.know(backend, id)
	if k.gone != nil {
		return false
	}
	k.gone = gone
	return true
}

// knownSince lists the boxes on a backend that have been known since before.
func (b *boxes) knownSince(backend string, before time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, k := range b.known {
		if k.backend == backend && k.since.Before(before) {
			ids = append(ids, id)
		}
	}
	return ids
}

// isStray reports whether a box with this server's label is one that nobody here knows. That is
// certain when none was being made since before it was listed, on whatever backend: two may lead to
// the same engine, and each lists the boxes of the other.
func (b *boxes) isStray(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.known[id]
	return (k == nil || !k.live) && b.making == 0
}
