package app

import (
	"context"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
)

// launch starts a run that goes on by itself, and waits for it as long as the caller should.
func (s *Service) launch(ctx context.Context, j job, session string, progress func(core.Progress), do func(*run, context.Context) (core.Record, error)) (core.Record, error) {
	r := &run{Service: s, job: j, clock: newStopwatch(s.ports.Now)}
	if err := r.afford(ctx); err != nil {
		return core.Record{}, err
	}
	working, release := s.whileOpen(context.WithoutCancel(ctx))
	u, working := s.runs.open(working, j, session, progress)
	r.under, r.progress = u, u.tell
	r.spec.ID, r.spec.Stream = u.id, progress != nil
	s.boxes.work.do("ran the code", func() {
		defer release()
		defer r.tidy()
		record, err := r.guard(func() (core.Record, error) { return do(r, working) })
		if err != nil && working.Err() != nil && !errors.Is(err, core.ErrCancelled) {
			err = cancelled(working)
		}
		s.account(r.pay)
		s.runs.close(working, u, core.RunEnded, record, err)
	})
	defer u.leave()
	return s.follow(ctx, u, j.background)
}

// guard has a fault of ours end the run, not the server.
func (r *run) guard(do func() (core.Record, error)) (record core.Record, err error) {
	err = safely(r.ports.Log, "ran the code", func() error {
		record, err = do()
		return err
	})
	return record, err
}

// account has what a run used counted. Those who wait for its end learn it, whatever goes wrong with that.
func (s *Service) account(count func()) {
	_ = safely(s.ports.Log, "counted what a run used", func() error { count(); return nil }) // it is in the log
}

// follow waits for the end of a run, but no longer than until the ceiling of calls: then, or as soon as the
// program runs if the caller wants it so, the run goes on in the background. A caller that gives up ends it.
func (s *Service) follow(ctx context.Context, u *underway, background bool) (core.Record, error) {
	begun := u.begun
	if !background {
		begun = nil
	}
	var ceiling <-chan time.Time
	if s.settings.SyncLimit > 0 {
		timer := time.NewTimer(s.settings.SyncLimit)
		defer timer.Stop()
		ceiling = timer.C
	}
	select {
	case <-u.done:
		return u.record, u.err
	case <-ctx.Done():
		u.cancel()
		<-u.done
		return u.record, u.err
	case <-begun:
	case <-ceiling:
	}
	return s.detach(ctx, u)
}

// detach lets a run go on without its call.
func (s *Service) detach(ctx context.Context, u *underway) (core.Record, error) {
	if u.over() { // a program that cannot be started has no background to go on in
		return u.record, u.err
	}
	if err := s.runs.keep(ctx, u); err != nil {
		u.cancel()
		<-u.done
		return core.Record{}, err
	}
	return s.soFar(ctx, u), nil
}

// soFarLimit bounds the look at what a run has printed so far: its box may be busy.
const soFarLimit = time.Second

// soFar is the record of a run under way.
func (s *Service) soFar(ctx context.Context, u *underway) core.Record {
	run := u.snapshot()
	record := core.Record{
		RunID: run.ID, Status: core.StatusRunning, Session: run.Session, Backend: run.Backend,
		Total: s.ports.Now().Sub(run.Started),
	}
	ctx, cancel := context.WithTimeout(ctx, soFarLimit)
	defer cancel()
	for stream, out := range map[core.Stream]*core.Output{core.Stdout: &record.Stdout, core.Stderr: &record.Stderr} {
		if piece, err := u.output(ctx, stream, 0, s.settings.Output.Head); err == nil {
			*out = core.Output{Head: piece.Data, Total: piece.Total}
		}
	}
	return record
}
