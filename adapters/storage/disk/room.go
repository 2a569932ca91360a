package disk

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// room counts what is kept and what is being written, so that the store's bound holds at once. What
// other servers write is noticed when it is measured again. The store's lock guards it.
type room struct {
	max      int64 // bytes; 0: no bound; never changes
	used     int64 // bytes
	measured bool
	oldest   []runUsage // as last measured, without what was removed since
}

// take reserves room for what is about to be written. If there is too little, the oldest runs go,
// but never the one that is written.
func (s *Artifacts) take(ctx context.Context, run string, n int64) error {
	if s.room.max == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 { // what was measured long ago is tried first
		if !s.room.measured {
			if err := s.measure(ctx); err != nil {
				return err
			}
		}
		s.makeRoom(run, n)
		if s.room.used+n <= s.room.max {
			s.room.used += n
			return nil
		}
		s.room.measured = false
	}
	return core.Errorf(core.ErrExhausted, "the room for files is full: at most %s are kept", core.FormatBytes(s.room.max)).
		WithHint("let the program leave less; the operator sets the room with files.max_bytes")
}

// give is for what was reserved and is not there. The caller holds the lock.
func (s *Artifacts) give(n int64) { s.room.used = max(0, s.room.used-n) }

// measure looks at every run. The caller holds the lock.
func (s *Artifacts) measure(ctx context.Context) error {
	var used int64
	var oldest []runUsage
	for _, entry := range entries(s.root, ".") {
		if err := ctx.Err(); err != nil {
			return core.Errorf(core.ErrCancelled, "measuring the files of runs was given up: %w", err)
		}
		run := entry.Name()
		if !entry.IsDir() || core.CheckRunID(run) != nil || !s.owns(run) {
			continue
		}
		usage, found := s.usage(run)
		used += usage.bytes
		if found && !usage.busy {
			oldest = append(oldest, usage)
		}
	}
	slices.SortFunc(oldest, func(a, b runUsage) int {
		return cmp.Or(a.newest.Compare(b.newest), strings.Compare(a.run, b.run))
	})
	s.room.used, s.room.oldest, s.room.measured = used, oldest, true
	return nil
}

// makeRoom removes the oldest runs, but not the one that is written, until n more bytes fit.
func (s *Artifacts) makeRoom(writing string, n int64) {
	removed := 0
	for s.room.used+n > s.room.max && len(s.room.oldest) > 0 {
		oldest := s.room.oldest[0]
		s.room.oldest = s.room.oldest[1:]
		if oldest.run == writing {
			continue
		}
		if now, found := s.usage(oldest.run); found && (now.busy || now.newest.After(oldest.newest)) {
			continue // it is not old any more
		}
		if err := s.evict(oldest); err != nil {
			s.log.Warn("an old run's files could not be removed", "run", oldest.run, "error", err)
			continue
		}
		removed++
	}
	if removed > 0 {
		s.log.Info("removed the files of old runs to make room", "runs", removed)
	}
}

// evict removes a run that was measured.
func (s *Artifacts) evict(r runUsage) error {
	if err := s.remove(r.run); err != nil {
		return err
	}
	s.give(r.bytes)
	return nil
}
