package app_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// sessionStore keeps sessions in the order in which they were added.
type sessionStore struct {
	mu     sync.Mutex
	all    []core.Session
	listed func()             // called once they have been listed
	added  func(core.Session) // called once one is there
	locked error              // keeps all from being changed
	writes int                // changes that were asked for
}

// locks has the store refuse changes from now on; nil lets it take them again.
func (s *sessionStore) locks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = err
}

func (s *sessionStore) Add(_ context.Context, added core.Session) error {
	if s.added != nil {
		defer func() { s.added(added) }()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.all {
		if other.ID == added.ID || added.Name != "" && other.Name == added.Name && other.Owner == added.Owner && other.Lost == "" {
			return core.Errorf(core.ErrInvalid, "there is one")
		}
	}
	s.all = append(s.all, added)
	return nil
}

func (s *sessionStore) find(is func(core.Session) bool) (core.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last core.Session
	for _, session := range s.all {
		if is(session) && (last.ID == "" || last.Lost != "" || session.Lost == "") {
			last = session
		}
	}
	if last.ID == "" {
		return last, core.Errorf(core.ErrNotFound, "there is none")
	}
	return last, nil
}

func (s *sessionStore) Get(_ context.Context, owner, idOrName string) (core.Session, error) {
	byID, err := s.find(func(have core.Session) bool { return have.Owner == owner && have.ID == idOrName })
	if err == nil {
		return byID, nil
	}
	return s.find(func(have core.Session) bool { return have.Owner == owner && have.Name == idOrName })
}

func (s *sessionStore) OfClient(_ context.Context, owner, client string) (core.Session, error) {
	return s.find(func(have core.Session) bool {
		return have.Owner == owner && have.Client == client && client != "" && have.Lost == ""
	})
}

func (s *sessionStore) Update(_ context.Context, id string, change func(*core.Session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes++; s.locked != nil {
		return s.locked
	}
	at := slices.IndexFunc(s.all, func(have core.Session) bool { return have.ID == id })
	if at < 0 {
		return core.Errorf(core.ErrNotFound, "there is none")
	}
	changed := s.all[at]
	if err := change(&changed); err != nil {
		return err
	}
	s.all[at] = changed
	return nil
}

func (s *sessionStore) List(_ context.Context, owner string) ([]core.Session, error) {
	if s.listed != nil {
		defer s.listed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(have core.Session) bool { return owner != "" && have.Owner != owner }), nil
}

func (s *sessionStore) Remove(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(have core.Session) bool { return have.ID == id })
	return nil
}

// runStore keeps runs in the order in which they were first put.
type runStore struct {
	mu     sync.Mutex
	all    []core.Run
	refuse func(core.Run) error // may keep a run from being put
	room   int64                // of the last Trim
	looked func()               // called once the runs under way have been read
}

// refuses has the store refuse runs from now on; nil lets it take all again.
func (s *runStore) refuses(refuse func(core.Run) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

func (s *runStore) Put(_ context.Context, r core.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(r); err != nil {
			return err
		}
	}
	at := slices.IndexFunc(s.all, func(have core.Run) bool { return have.ID == r.ID })
	switch {
	case at < 0:
		s.all = append(s.all, r)
	case s.all[at].State == core.RunEnded, s.all[at].State == core.RunLost && r.State == core.RunUnderWay:
		return core.Errorf(core.ErrInvalid, "it has ended")
	default:
		s.all[at] = r
	}
	return nil
}

func (s *runStore) TakeOver(_ context.Context, id, from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.all, func(have core.Run) bool { return have.ID == id })
	if at < 0 || s.all[at].Server != from || s.all[at].State != core.RunUnderWay {
		return core.Errorf(core.ErrNotFound, "it is another's")
	}
	if s.refuse != nil {
		if err := s.refuse(s.all[at]); err != nil {
			return err
		}
	}
	s.all[at].Server = to
	return nil
}

func (s *runStore) list(is func(core.Run) bool) []core.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(have core.Run) bool { return !is(have) })
}

func (s *runStore) Get(_ context.Context, owner, id string) (core.Run, error) {
	found := s.list(func(have core.Run) bool { return have.ID == id && (owner == "" || have.Owner == owner) })
	if len(found) == 0 {
		return core.Run{}, core.Errorf(core.ErrNotFound, "there is none")
	}
	return found[0], nil
}

func (s *runStore) List(_ context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	found := s.list(func(have core.Run) bool {
		return (owner == "" || have.Owner == owner) && (before.IsZero() || have.Started.Before(before))
	})
	slices.Reverse(found)
	return found[:min(limit, len(found))], nil
}

func (s *runStore) UnderWay(context.Context) ([]core.Run, error) {
	all := s.list(func(have core.Run) bool { return have.State == core.RunUnderWay })
	if s.looked != nil {
		s.looked()
	}
	return all, nil
}

// Trim notes what there is to be room for.
func (s *runStore) Trim(_ context.Context, room int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
	return 0, nil
}

func (s *runStore) Sweep(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.all)
	s.all = slices.DeleteFunc(s.all, func(have core.Run) bool {
		return have.State != core.RunUnderWay && have.Ended.Before(before)
	})
	return had - len(s.all), nil
}

// forget is what a sweep does after a while.
func (s *runStore) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(r core.Run) bool { return r.ID == id })
}
