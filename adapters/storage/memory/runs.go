package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// Runs is a session.Runs. Its zero value is empty and ready.
type Runs struct {
	mu  sync.Mutex
	all map[string]core.Run
}

// NewRuns returns an empty store.
func NewRuns() *Runs { return &Runs{} }

// Put implements session.Runs.
func (s *Runs) Put(_ context.Context, r core.Run) error {
	if err := session.CheckRun(r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, exists := s.all[r.ID]; exists {
		if err := session.CheckNext(now, r); err != nil {
			return err
		}
	}
	if s.all == nil {
		s.all = map[string]core.Run{}
	}
	s.all[r.ID] = cloneRun(r)
	return nil
}

// TakeOver implements session.Runs.
func (s *Runs) TakeOver(_ context.Context, id, from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, exists := s.all[id]
	if !exists || r.State != core.RunUnderWay || r.Server != from {
		return session.ErrTaken(id, from)
	}
	r.Server = to
	s.all[id] = r
	return nil
}

// Get implements session.Runs.
func (s *Runs) Get(_ context.Context, owner, id string) (core.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, exists := s.all[id]
	if !exists || owner != "" && r.Owner != owner {
		return core.Run{}, core.Errorf(core.ErrNotFound, "there is no run %.100q", id)
	}
	return cloneRun(r), nil
}

// List implements session.Runs.
func (s *Runs) List(_ context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	if limit < 1 {
		return nil, core.Errorf(core.ErrInvalid, "a list of %d runs was asked for; it has at least 1", limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.sorted(func(r core.Run) bool {
		return (owner == "" || r.Owner == owner) && (before.IsZero() || r.Started.Before(before))
	})
	for limit < len(list) && list[limit].Started.Equal(list[limit-1].Started) {
		limit++
	}
	list = list[:min(limit, len(list))]
	for i := range list {
		list[i] = cloneRun(session.Brief(list[i]))
	}
	return list, nil
}

// sorted returns those that are wanted, the latest first. They are not copies. The caller holds the lock.
func (s *Runs) sorted(wanted func(core.Run) bool) []core.Run {
	var list []core.Run
	for _, r := range s.all {
		if wanted(r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b core.Run) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.ID, a.ID))
	})
	return list
}

// UnderWay implements session.Runs.
func (s *Runs) UnderWay(context.Context) ([]core.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.sorted(func(r core.Run) bool { return r.State == core.RunUnderWay })
	for i := range list {
		list[i] = cloneRun(list[i])
	}
	return list, nil
}

// Sweep implements session.Runs.
func (s *Runs) Sweep(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := len(s.all)
	maps.DeleteFunc(s.all, func(_ string, r core.Run) bool {
		return r.State != core.RunUnderWay && session.EndOf(r).Before(before)
	})
	return kept - len(s.all), nil
}

// Trim implements session.Runs.
func (s *Runs) Trim(_ context.Context, room int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.sorted(func(r core.Run) bool { return r.State == core.RunEnded && session.Bytes(r) > 0 })
	slices.SortStableFunc(over, func(a, b core.Run) int { return b.Ended.Compare(a.Ended) })
	trimmed, kept := 0, int64(0)
	for _, r := range over {
		if kept += session.Bytes(r); kept > room {
			s.all[r.ID] = cloneRun(session.Trimmed(r))
			trimmed++
		}
	}
	return trimmed, nil
}

func cloneRun(r core.Run) core.Run {
	record := &r.Record
	for _, out := range []*core.Output{&record.Stdout, &record.Stderr} {
		out.Head, out.Tail = bytes.Clone(out.Head), bytes.Clone(out.Tail)
	}
	record.Durations, record.Warnings = maps.Clone(record.Durations), slices.Clone(record.Warnings)
	record.AutoInstalled = slices.Clone(record.AutoInstalled)
	record.Displays = slices.Clone(record.Displays)
	for i := range record.Displays {
		record.Displays[i].Data = bytes.Clone(record.Displays[i].Data)
	}
	record.Files = slices.Clone(record.Files)
	for i := range record.Files {
		if preview := record.Files[i].Preview; preview != nil {
			p := *preview
			p.Data = bytes.Clone(p.Data)
			record.Files[i].Preview = &p
		}
	}
	return r
}
