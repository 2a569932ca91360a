package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Sessions lists the owner's sessions, the oldest first. Those that are over are left out.
func (s *Service) Sessions(ctx context.Context, owner string) ([]core.SessionInfo, error) {
	all, err := s.ports.Sessions.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	list := []core.SessionInfo{}
	for _, session := range all {
		if session.Lost != "" || s.ports.Now().After(session.Expires()) {
			continue
		}
		info := core.SessionInfo{Session: session}
		s.sessions.mu.Lock()
		if h := s.sessions.held[session.ID]; h != nil {
			info.Busy, info.Waiting = h.line.state()
		}
		s.sessions.mu.Unlock()
		info.Busy = info.Busy || s.driven(session)
		list = append(list, info)
	}
	return list, nil
}

// StopSession ends a session, and returns once its box is gone. What runs in it is cancelled.
func (s *Service) StopSession(ctx context.Context, owner, idOrName string) error {
	session, err := s.session(ctx, owner, idOrName)
	if err != nil {
		return err
	}
	return s.stopSession(ctx, session)
}

// EndClient ends the session of a connection that is over, if it had one.
func (s *Service) EndClient(ctx context.Context, owner, client string) error {
	leave, err := s.sessions.turn(ctx, client, s.settings.Sessions.MaxQueued) // a call of it may just be making one
	if err != nil {
		return err
	}
	defer leave()
	session, err := s.ports.Sessions.OfClient(ctx, owner, client)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.stopSession(ctx, session)
}

func (s *Service) stopSession(ctx context.Context, session core.Session) error {
	on, err := s.place(session.Backend)
	if err != nil {
		return err
	}
	s.runs.endSession(ctx, session.ID)
	if err := s.boxes.destroy(ctx, on, session.Box); err != nil {
		return err
	}
	s.sessions.drop(session.ID)
	return s.ports.Sessions.Remove(ctx, session.ID)
}

// Inspect lists the variables of a session's interpreter.
func (s *Service) Inspect(ctx context.Context, owner, idOrName string) ([]core.Variable, error) {
	session, err := s.session(ctx, owner, idOrName)
	if err != nil {
		return nil, err
	}
	on, err := s.place(session.Backend)
	if err != nil {
		return nil, err
	}
	r := &run{Service: s, place: on}
	guest, err := r.reach(ctx, s.sessions.hold(session.ID), session)
	if err != nil {
		return nil, err
	}
	var variables []core.Variable
	err = patiently(ctx, func(ctx context.Context) error {
		variables, err = guest.Variables(ctx)
		return err
	})
	if err != nil {
		return nil, r.lossOf(ctx, session, err)
	}
	return variables, nil
}

// endSessions ends the sessions that this server used last, as it ends itself, and those of servers that were
// killed: nobody may be left who would see that they are idle.
func (s *Service) endSessions(ctx context.Context) error {
	all, err := s.ports.Sessions.List(ctx, "")
	if err != nil {
		return err
	}
	var ending sync.WaitGroup
	errs := make([]error, len(all))
	for i, session := range all {
		switch {
		case session.Lost != "" || session.Server != s.ports.Server && s.ports.Alive(session.Server):
		case s.settings.Sessions.KeepOnExit:
			s.yieldSession(session)
		default:
			ending.Go(func() {
				errs[i] = safely(s.ports.Log, "ended a session", func() error { return s.endSession(ctx, session) })
			})
		}
	}
	ending.Wait()
	return errors.Join(errs...)
}

// endSession ends a session unless another server has begun to use it.
func (s *Service) endSession(ctx context.Context, session core.Session) error {
	marked, _, err := s.mark(ctx, session.ID, "its server has ended", func(kept core.Session) bool { return kept.Server == session.Server })
	if err != nil {
		return err
	}
	if !marked {
		s.yieldSession(session)
		return nil
	}
	return s.stopSession(ctx, session)
}

// yieldSession leaves a session to others.
func (s *Service) yieldSession(session core.Session) {
	s.sessions.drop(session.ID)
	s.boxes.forget(session.Box)
}

// lostFor is how long the end of a session is remembered.
const lostFor = 24 * time.Hour

// reviewSessions ends sessions whose time is over, forgets old ones, and returns the boxes of those that live.
func (s *Service) reviewSessions(ctx context.Context) (needed map[string]core.Session, err error) {
	over := s.sessions.ids() // before the store is read: what is opened meanwhile is none of them
	all, err := s.ports.Sessions.List(ctx, "")
	if err != nil {
		return nil, err
	}
	needed = map[string]core.Session{}
	for _, session := range all {
		now := s.ports.Now()
		if session.Lost == "" && now.After(session.Expires()) {
			if session.Lost, err = s.expire(ctx, session); err != nil {
				return nil, err
			}
			session.Used = now
		}
		switch {
		case session.Lost == "":
			if err := s.unmark(ctx, session); err != nil {
				return nil, err
			}
			needed[session.Box] = session
			delete(over, session.ID)
			s.adopt(claim{tenant: session.Owner, backend: session.Backend, kind: claimBox, lasting: true}, session.Box).release()
		case now.Sub(session.Used) > lostFor:
			if err := s.ports.Sessions.Remove(ctx, session.ID); err != nil {
				return nil, err
			}
		}
	}
	for id := range over { // another server may have ended them
		s.sessions.drop(id)
	}
	return needed, nil
}

// missSessions marks the sessions on a backend whose boxes it does not have. One that is younger than the
// look at the backend was not there yet.
func (s *Service) missSessions(ctx context.Context, on *place, needed map[string]core.Session, boxes []core.Box, looked time.Time) {
	running := map[string]bool{}
	for _, box := range boxes {
		running[box.ID] = box.State == core.BoxRunning
	}
	for _, session := range needed {
		if session.Backend != on.name || running[session.Box] || !session.Created.Before(looked) {
			continue
		}
		if why := s.whyGone(ctx, on, session.Box); why != "" {
			_, _ = s.lose(ctx, session, why, anyway) // an error is logged; the next sweep tries again
		}
	}
}
