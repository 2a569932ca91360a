package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
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
		err := s.ports.Runs.TakeOver(ctx, known.ID, known.Server, s.ports.Server)
		if errors.Is(err, core.ErrNotFound) {
			continue // another server was quicker
		}
		if err != nil {
			return err
		}
		known.Server = s.ports.Server
		s.takeUp(known)
	}
	return nil
}

// takeUp follows a run to its end, in the background.
func (s *Service) takeUp(known core.Run) {
	working, release := s.whileOpen(context.Background())
	u, working := s.runs.reopen(working, known)
	leave := s.lineUp(working, known)
	s.boxes.work.do("took a run up", func() {
		defer release()
		defer leave()
		r := &run{Service: s, job: job{tenant: known.Owner}, under: u, progress: func(core.Progress) {}, clock: newStopwatch(s.ports.Now)}
		r.spec.ID = cmp.Or(known.InBox, known.ID)
		defer r.tidy()
		record, err := r.guard(func() (core.Record, error) { return r.resume(working, known) })
		if err != nil {
			s.runs.lose(working, u, err)
			return
		}
		s.account(func() {
			s.spending.settle(known.Owner, 0, s.cpuTime(min(record.Durations[core.PhaseRun], known.Timeout)))
		})
		s.runs.close(working, u, core.RunEnded, record, nil)
	})
}

// lineUp keeps others from a session in which a run goes on. If one was quicker, its program waits in the box.
func (s *Service) lineUp(ctx context.Context, known core.Run) (leave func()) {
	if known.Session != "" {
		if leave, err := s.sessions.hold(known.Session).line.enter(ctx, 0, nil); err == nil {
			return leave
		}
	}
	return func() {}
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
	counted := claim{tenant: known.Owner, backend: known.Backend, kind: claimCall}
	if known.Session == "" { // the box is this run's alone
		counted.kind = claimRun
		r.boxes.remember(known.Backend, known.Box)
		r.afterwards = func() { r.boxes.discard(r.place, known.Box) }
	} else if session, err := r.session(ctx, known.Owner, known.Session); err == nil {
		_, _, _ = r.seize(ctx, session.ID) // if another was quicker, its program waits in the box
		defer r.inUse(session, r.under.id)()
	}
	defer r.adopt(counted, known.Box).release()
	guest, exit, err := r.rejoin(ctx, known)
	if err != nil {
		return core.Record{}, err
	}
	defer func() { _ = guest.Close() }() // the box is gone with it, or its session's
	r.clock.backdate(known.Begun.Sub(known.Started), exit.Duration)
	r.record.Warnings = []string{"the server was restarted while the program ran"}
	return r.conclude(ctx, guest, exit), nil
}

// rejoinPause is how long an engine or a box that cannot be reached is left alone.
const rejoinPause = time.Second

// rejoin waits for the program's exit, no longer than it may take. An engine may be away for a moment: only a
// box that is gone is a loss.
func (r *run) rejoin(ctx context.Context, known core.Run) (execution.Guest, core.Exit, error) {
	left := known.Begun.Add(known.Timeout).Sub(r.ports.Now())
	waiting, cancel := context.WithTimeout(ctx, max(left, 0)+overdue)
	defer cancel()
	for {
		guest, err := r.dial(waiting, r.place, known.Box)
		if err == nil {
			var exit core.Exit
			r.under.begin(guest, known.Backend, known.Box, r.spec.ID, known.Begun)
			attached := r.ports.Now()
			if exit, err = r.attach(ctx, waiting, guest); err == nil {
				exit.Duration = r.ran(exit, known.Begun, attached)
				return guest, exit, nil
			}
			_ = guest.Close() // the next is tried, or none
		}
		if !errors.Is(err, core.ErrUnavailable) || waiting.Err() != nil || r.whyGone(waiting, r.place, known.Box) != "" {
			return nil, core.Exit{}, err
		}
		pause(waiting, rejoinPause)
	}
}

// ran is how long the program ran. It may have ended while no server looked, so that only its box knows: what that
// says is believed between the time that was seen to pass and all that has passed.
func (r *run) ran(exit core.Exit, begun, attached time.Time) time.Duration {
	now := r.ports.Now()
	return max(min(exit.Duration, now.Sub(begun)), now.Sub(attached))
}

// attach waits for the exit until waiting ends; the end of ctx ends the program.
func (r *run) attach(ctx, waiting context.Context, guest execution.Guest) (core.Exit, error) {
	exit, err := guest.Attach(waiting, r.spec.ID)
	if err == nil || ctx.Err() == nil {
		return exit, err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), overdue)
	defer cancel()
	if err := guest.Kill(ending, r.spec.ID); err != nil {
		return core.Exit{}, err
	}
	return guest.Attach(ending, r.spec.ID)
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
	l.close(ctx, u, core.RunLost, core.Record{}, errLostRun())
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
