package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// Sessions is a session.Store. Its zero value is empty and ready.
type Sessions struct {
	mu  sync.Mutex
	all map[string]core.Session
}

// NewSessions returns an empty store.
func NewSessions() *Sessions { return &Sessions{} }

// Add implements session.Store.
func (s *Sessions) Add(_ context.Context, added core.Session) error {
	if err := session.CheckSession(added); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.all[added.ID]; exists {
		return core.Errorf(core.ErrInvalid, "there is a sandbox %.100q already", added.ID)
	}
	return s.keep(added)
}

// keep stores a session unless its name or client is in use. The caller holds the lock.
func (s *Sessions) keep(kept core.Session) error {
	if kept.Lost == "" {
		for _, other := range s.all {
			if other.ID != kept.ID && collide(other, kept) {
				return session.Taken(kept)
			}
		}
	}
	if s.all == nil {
		s.all = map[string]core.Session{}
	}
	s.all[kept.ID] = cloneSession(kept)
	return nil
}

func collide(a, b core.Session) bool {
	if a.Owner != b.Owner || a.Lost != "" || b.Lost != "" {
		return false
	}
	return a.Name != "" && a.Name == b.Name || a.Client != "" && a.Client == b.Client
}

// Get implements session.Store.
func (s *Sessions) Get(_ context.Context, owner, idOrName string) (core.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, exists := s.all[idOrName]; exists && found.Owner == owner {
		return cloneSession(found), nil
	}
	named := s.sorted(func(x core.Session) bool { return x.Owner == owner && x.Name == idOrName && idOrName != "" })
	if len(named) == 0 {
		return core.Session{}, core.Errorf(core.ErrNotFound, "there is no sandbox %.100q", idOrName)
	}
	if i := slices.IndexFunc(named, func(x core.Session) bool { return x.Lost == "" }); i >= 0 {
		return named[i], nil
	}
	return named[len(named)-1], nil
}

// sorted returns copies of those that are wanted, the oldest first. The caller holds the lock.
func (s *Sessions) sorted(wanted func(core.Session) bool) []core.Session {
	var list []core.Session
	for _, x := range s.all {
		if wanted(x) {
			list = append(list, cloneSession(x))
		}
	}
	slices.SortFunc(list, func(a, b core.Session) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}

// OfClient implements session.Store.
func (s *Sessions) OfClient(_ context.Context, owner, client string) (core.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if x.Owner == owner && x.Client == client && client != "" && x.Lost == "" {
			return cloneSession(x), nil
		}
	}
	return core.Session{}, core.Errorf(core.ErrNotFound, "the connection has no sandbox")
}

// Update implements session.Store.
func (s *Sessions) Update(_ context.Context, id string, change func(*core.Session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, exists := s.all[id]
	if !exists {
		return core.Errorf(core.ErrNotFound, "there is no sandbox %.100q", id)
	}
	next := cloneSession(now)
	if err := change(&next); err != nil {
		return err
	}
	next.ID, next.Owner, next.Created = now.ID, now.Owner, now.Created
	return s.keep(next)
}

// List implements session.Store.
func (s *Sessions) List(_ context.Context, owner string) ([]core.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(func(x core.Session) bool { return owner == "" || x.Owner == owner }), nil
}

// Remove implements session.Store.
func (s *Sessions) Remove(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
	return nil
}

func cloneSession(s core.Session) core.Session {
	s.Requirements, s.PythonPath = slices.Clone(s.Requirements), slices.Clone(s.PythonPath)
	s.Installs = slices.Clone(s.Installs)
	for i := range s.Installs {
		s.Installs[i].Packages = slices.Clone(s.Installs[i].Packages)
	}
	return s
}
