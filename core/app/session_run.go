package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// RunInSession runs a program in a session: the one with that id or name, or, for "", the connection's own,
// which is made on first use. Calls to one session run one after the other. Otherwise it is as RunOnce.
func (s *Service) RunInSession(ctx context.Context, idOrName string, r core.Request, progress func(core.Progress)) (core.Record, error) {
	job, err := s.settings.plan(r, true)
	if err != nil {
		return core.Record{}, err
	}
	if idOrName != "" { // an error here needs no run
		if _, err := s.session(ctx, r.Tenant, idOrName); err != nil {
			return core.Record{}, err
		}
	}
	return s.launch(ctx, job, "", progress, func(run *run, ctx context.Context) (core.Record, error) {
		return run.within(ctx, idOrName)
	})
}

// within runs the program in a session.
func (r *run) within(ctx context.Context, idOrName string) (core.Record, error) {
	r.clock.enter(core.PhaseQueue)
	session, err := r.findSession(ctx, idOrName)
	if err != nil {
		return core.Record{}, err
	}
	r.under.into(session.ID)
	if _, err := r.addPackages(ctx, session); err != nil {
		return core.Record{}, err
	}
	r.clock.enter(core.PhaseQueue)
	held := r.sessions.hold(session.ID)
	leave, err := held.line.enter(ctx, r.settings.Sessions.MaxQueued, r.tellPlace)
	if err != nil {
		return core.Record{}, err
	}
	defer leave()
	if session, err = r.session(ctx, r.tenant, session.ID); err != nil { // it may have ended meanwhile
		return core.Record{}, err
	}
	if r.place, err = r.Service.place(session.Backend); err != nil {
		return core.Record{}, err
	}
	session, left, err := r.occupy(ctx, session.ID) // to wait is not to be idle
	if err != nil {
		return core.Record{}, err
	}
	defer left()
	ticket, err := r.admit(ctx, claim{tenant: r.tenant, backend: r.name, kind: claimCall}, r.queued)
	if err != nil {
		return core.Record{}, err
	}
	defer ticket.release()
	r.clock.enter(core.PhaseBox)
	guest, err := r.reach(ctx, held, session)
	if err != nil {
		return core.Record{}, err
	}
	return r.play(ctx, guest, session)
}

// tellPlace tells the caller how many are before it.
func (r *run) tellPlace(before int) {
	r.progress(core.Progress{Phase: core.PhaseQueue, Message: fmt.Sprintf("waiting for the sandbox: %d before this call", before)})
}

// play runs the program on the session's guest, and again once it has what it turned out to lack.
func (r *run) play(ctx context.Context, guest execution.Guest, session core.Session) (core.Record, error) {
	for {
		exit, err := r.perform(ctx, guest, session)
		if err != nil {
			return core.Record{}, err
		}
		again := r.supply(ctx, exit, func(ctx context.Context) (err error) {
			session, err = r.addPackages(ctx, session)
			return err
		})
		if !again {
			return r.conclude(ctx, guest, exit), nil
		}
		r.spec.ID = r.ports.NewID() // the box has seen the other
	}
}

func (r *run) perform(ctx context.Context, guest execution.Guest, session core.Session) (core.Exit, error) {
	r.record.Image, r.spec.PythonPath = session.Image, session.PythonPath
	exit, err := r.execute(ctx, guest, session.Box)
	if r.lacksPackages(err) {
		return core.Exit{}, r.losePackages(ctx, session)
	}
	if err != nil {
		if exit, err = r.explainSessionLoss(ctx, session, err); err != nil {
			return core.Exit{}, err
		}
	} else if exit.StateLost {
		exit.Warnings = append(exit.Warnings, "the interpreter of the sandbox ended: its variables and imports are gone, its files are still there")
	}
	return exit, nil
}

// reach returns the session's guest. A box that is not there any more ends the session.
func (r *run) reach(ctx context.Context, held *held, session core.Session) (execution.Guest, error) {
	guest, err := held.connect(func() (execution.Guest, error) { return r.dial(ctx, r.place, session.Box) })
	if err != nil {
		return nil, r.lossOf(ctx, session, err)
	}
	return guest, nil
}

// lossOf looks whether a session that could not be reached is over, and says so once.
func (r *run) lossOf(ctx context.Context, session core.Session, err error) error {
	if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	why := r.whyGone(ctx, r.place, session.Box)
	if why == "" {
		return err // it may be there again in a moment
	}
	_, _ = r.lose(context.WithoutCancel(ctx), session, why, anyway) // it is over all the same
	return errExpired(why)
}

// whyGone says why a box is not there any more; "" if it is, or may be. An engine's list alone is not
// believed: some leave a box out now and then.
func (s *Service) whyGone(ctx context.Context, on *place, box string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	guest, err := s.ports.Guests.Connect(ctx, on.backend, box)
	if err == nil {
		_ = guest.Close() // it was only a look
		return ""
	}
	if errors.Is(err, core.ErrNotFound) {
		return "its box was removed"
	}
	found, err := on.look(ctx, s.ports.Instance, box)
	switch {
	case err != nil || found.State == core.BoxRunning:
		return ""
	case found.OOMKilled:
		return "its box ran out of memory and ended"
	}
	return "its box has ended"
}

// explainSessionLoss is explainLoss for a box that more programs were to run in.
func (r *run) explainSessionLoss(ctx context.Context, session core.Session, err error) (core.Exit, error) {
	exit, err := r.explainLoss(ctx, session.Box, err)
	if err == nil {
		_, _ = r.lose(context.WithoutCancel(ctx), session, "its box ran out of memory and ended", anyway) // it is over all the same
		return exit, nil
	}
	return core.Exit{}, r.lossOf(ctx, session, err)
}
