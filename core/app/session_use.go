package app

import (
	"context"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
)

// beatTime is how often a session in use is marked as used; more often if it may not be idle for long.
const beatTime = 30 * time.Second

// drivenPause is how often is looked whether another server has left a session.
const drivenPause = 200 * time.Millisecond

// occupy has the run alone in the session, as calls of other servers that share the store are concerned, until leave
// is called. Those of this server stand in a line already.
func (r *run) occupy(ctx context.Context, id string) (session core.Session, leave func(), err error) {
	limit := time.NewTimer(r.settings.MaxWait)
	defer limit.Stop()
	for told := false; ; told = true {
		session, driven, err := r.trySeize(ctx, id)
		if err != nil {
			return core.Session{}, nil, err
		}
		if !driven {
			return session, r.inUse(session, r.under.id), nil
		}
		if !told {
			r.progress(core.Progress{Phase: core.PhaseQueue, Message: "waiting for the sandbox: another server of this installation runs a program in it"})
		}
		select {
		case <-time.After(drivenPause):
		case <-limit.C:
			return core.Session{}, nil, errDriven(r.settings.MaxWait)
		case <-ctx.Done():
			return core.Session{}, nil, cancelled(ctx)
		}
	}
}

// errDriven is the error of a call that another server's program keeps out of a session.
func errDriven(waited time.Duration) error {
	return core.Errorf(core.ErrExhausted, "another server of this installation has run a program in the sandbox for the %s that a call waits", waited).
		WithHint("wait for that program's end, or use another sandbox").WithRetryAfter(lineRetry)
}

// trySeize is seize once a look says that nobody drives the session: a change keeps everybody else from the store.
func (r *run) trySeize(ctx context.Context, id string) (session core.Session, driven bool, err error) {
	session, err = r.session(ctx, r.tenant, id)
	if err != nil || r.driven(session) {
		return session, true, err
	}
	return r.seize(ctx, id)
}

// seize gives the session to this run unless a living server drives it. Of several that want it at once one gets it.
func (r *run) seize(ctx context.Context, id string) (session core.Session, driven bool, err error) {
	err = r.ports.Sessions.Update(ctx, id, func(kept *core.Session) error {
		if kept.Lost != "" {
			return errExpired(kept.Lost)
		}
		if driven = r.driven(*kept); driven {
			return core.Errorf(core.ErrUnavailable, "another server drives the session")
		}
		kept.Used, kept.Server, kept.Call = r.ports.Now(), r.ports.Server, r.under.id
		session = *kept
		return nil
	})
	if driven {
		return session, true, nil
	}
	return session, false, err
}

// driven reports whether another server runs a program in the session. What one that was killed ran is taken up, or
// ends in its box before the next begins.
func (s *Service) driven(kept core.Session) bool {
	return kept.Call != "" && kept.Server != s.ports.Server && s.ports.Alive(kept.Server)
}

// busy keeps a session from being idle until the returned function is called.
func (r *run) busy(session core.Session) (done func()) { return r.inUse(session, "") }

// inUse is busy for a run that has occupied the session, and leaves it in the end.
func (r *run) inUse(session core.Session, call string) (done func()) {
	pause, over := min(beatTime, session.IdleTimeout/3), make(chan struct{})
	r.boxes.work.do("kept a session in use", func() {
		if call == "" { // else it is marked already
			r.markUsed(session.ID, "")
		}
		for ; ; r.markUsed(session.ID, "") {
			select {
			case <-time.After(pause):
			case <-over:
				r.markUsed(session.ID, call)
				return
			}
		}
	})
	return func() { close(over) }
}

// markUsed marks a session as used now, by this server if no other drives it, and as left by a run that ended.
func (r *run) markUsed(id, ended string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
	defer cancel()
	err := r.ports.Sessions.Update(ctx, id, func(kept *core.Session) error {
		kept.Used = r.ports.Now()
		if !r.driven(*kept) {
			kept.Server = r.ports.Server
		}
		if kept.Call == ended {
			kept.Call = ""
		}
		return nil
	})
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		r.ports.Log.Debug("the use of a session could not be kept", "session", id, "error", err)
	}
}

// unmark takes the mark of a run that is over from a session of this server: to take it at the run's end may have
// failed, and other servers would wait for ever.
func (s *Service) unmark(ctx context.Context, session core.Session) error {
	if !s.isStale(session) {
		return nil
	}
	err := s.ports.Sessions.Update(ctx, session.ID, func(kept *core.Session) error {
		if s.isStale(*kept) {
			kept.Call = ""
		}
		return nil
	})
	if errors.Is(err, core.ErrNotFound) {
		return nil // it has been ended meanwhile
	}
	return err
}

// isStale reports whether a session is marked as driven by this server, which does not.
func (s *Service) isStale(session core.Session) bool {
	return session.Call != "" && session.Server == s.ports.Server && s.runs.find(session.Owner, session.Call) == nil
}
