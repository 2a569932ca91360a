package app

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/boxwright/boxwright/core"
)

// Owners are all who have a session that lives, on whichever server, or a run under way on this one.
func (s *Service) Owners(ctx context.Context) ([]string, error) {
	all, err := s.ports.Sessions.List(ctx, "")
	if err != nil {
		return nil, err
	}
	owners := map[string]bool{}
	for _, session := range all {
		if session.Lost == "" {
			owners[session.Owner] = true
		}
	}
	for _, u := range s.runs.underWay() {
		owners[u.owner] = true
	}
	return slices.Sorted(maps.Keys(owners)), nil
}

// Expel ends what an owner has who may not use the server any more: runs under way on this server are cancelled,
// sessions are over, and their boxes go in the background.
func (s *Service) Expel(ctx context.Context, owner string) error {
	ctx, release := s.whileOpen(ctx)
	defer release()
	for _, u := range s.runs.underWay() {
		if u.owner == owner {
			u.cancel()
		}
	}
	all, err := s.ports.Sessions.List(ctx, owner)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	for i, session := range all {
		if session.Lost != "" {
			continue
		}
		s.runs.endSession(ctx, session.ID)
		_, errs[i] = s.lose(ctx, session, "its owner may not use the server any more", anyway)
	}
	return errors.Join(errs...)
}

// underWay are the runs that have not ended.
func (l *ledger) underWay() []*underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*underway
	for _, u := range l.live {
		if run := u.snapshot(); run.State == core.RunUnderWay {
			list = append(list, u)
		}
	}
	return list
}
