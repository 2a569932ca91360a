package app

import (
	"context"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
)

// recoverRuns takes up the runs of servers that are gone: the program may go on in its box, or have ended
// there. What cannot be taken up is lost, and says so to whoever asks.
func (s *Service) recoverRuns(ctx context.Context) error {
	all, err := s.ports.Runs.UnderWay(ctx)
	if err != nil {
		return err
	}
	for _, known := range all {
		if known.Server == s.ports.Server || s.ports.Alive(known.Server) {
			continue
		}
		known.Server = s.ports.Server
		if err := s.ports.Runs.Put(ctx, known); err != nil {
			continue // another server has settled it
		}
		s.takeUp(known)
	}
	return nil
}

// takeUp follows a run to its end, in the background.
func (s *Service) takeUp(known core.Run) {
	working, release := s.whileOpen(context.Background())
	u, working := s.runs.reopen(working, known)
	go func() {
		defer release()
		r := &run{Service: s, job: job{tenant: known.Owner}, under: u, progress: func(core.Progress) {}, clock: newStopwatch(s.ports.Now)}
		r.spec.ID = known.ID
		defer r.tidy()
		record, err := r.resume(working, known)
		if err != nil {
			s.runs.lose(working, u, err)
			return
		}
		s.runs.close(working, u, record, nil)
	}()
}

// resume waits for the program in its box, and makes its record.
func (r *run) resume(ctx context.Context, known core.Run) (core.Record, error) {
	if known.Box == "" {
		return core.Record{}, core.Errorf(core.ErrUnavailable, "the program had not begun")
	}
	var err error
	if r.place, err = r.Service.place(known.Backend); err != nil {
		return core.Record{}, err
	}
	if known.Session == "" { // the box is this run's alone
		r.boxes.remember(known.Box)
		r.afterwards = func() { r.boxes.discard(r.place, known.Box) }
	} else if session, err := r.session(ctx, known.Owner, known.Session); err == nil {
		defer r.busy(session)()
	}
	guest, err := r.ports.Guests.Connect(ctx, r.backend, known.Box)
	if err != nil {
		return core.Record{}, err
	}
	defer func() { _ = guest.Close() }() // the box is gone with it, or its session's
	r.clock.enter(core.PhaseRun)
	r.under.begin(guest, known.Backend, known.Box, known.ID)
	exit, err := r.attach(ctx, guest, known)
	if err != nil {
		return core.Record{}, err
	}
	r.record.Warnings = []string{"the server was restarted while the program ran"}
	return r.conclude(ctx, guest, exit), nil
}

// attach waits for the exit no longer than the program may take.
func (r *run) attach(ctx context.Context, guest attacher, known core.Run) (core.Exit, error) {
	const overdue = 15 * time.Second
	left := known.Started.Add(known.Timeout).Sub(r.ports.Now())
	waiting, cancel := context.WithTimeout(ctx, max(left, 0)+overdue)
	defer cancel()
	exit, err := guest.Attach(waiting, known.ID)
	if err == nil || ctx.Err() == nil {
		return exit, err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), overdue) // cancelled: end the program
	defer cancel()
	if err := guest.Kill(ending, known.ID); err != nil {
		return core.Exit{}, err
	}
	return guest.Attach(ending, known.ID)
}

// attacher is what of a guest takes a run up.
type attacher interface {
	Attach(ctx context.Context, run string) (core.Exit, error)
	Kill(ctx context.Context, run string) error
}

// reopen is open for a run that another server began.
func (l *ledger) reopen(ctx context.Context, known core.Run) (*underway, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	u := &underway{
		id: known.ID, owner: known.Owner, cancel: cancel, run: known, detached: true,
		done: make(chan struct{}), begun: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[u.id] = u
	return u, ctx
}

// lose keeps that nobody knows how a run ended.
func (l *ledger) lose(ctx context.Context, u *underway, why error) {
	l.ports.Log.Info("a run could not be taken up again", "run", u.id, "error", why)
	run, _ := u.snapshot()
	run.State, run.Ended = core.RunLost, l.ports.Now()
	keeping, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	if err := l.ports.Runs.Put(keeping, run); err != nil && !errors.Is(err, core.ErrInvalid) {
		l.ports.Log.Warn("a run's end could not be kept", "run", u.id, "error", err)
	}
	u.end(core.Record{}, errLostRun())
	u.cancel()
	l.forget(u)
}

func errLostRun() error {
	return core.Errorf(core.ErrUnavailable, "how the run ended is not known: its server or its box was lost meanwhile").
		WithHint("run the code again")
}

// neededBoxes are those of runs that a living server looks after.
func (s *Service) neededBoxes(ctx context.Context) (map[string]bool, error) {
	all, err := s.ports.Runs.UnderWay(ctx)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, run := range all {
		if run.Box != "" && (run.Server == s.ports.Server || s.ports.Alive(run.Server)) {
			needed[run.Box] = true
		}
	}
	return needed, nil
}
