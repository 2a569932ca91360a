package app

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// The times of sets that are to be installed: how often is looked whether they still are, how soon after a
// failure at first, and how long each waits for a moment in which nothing runs.
const (
	warmEvery    = 30 * time.Minute
	warmRetry    = time.Minute
	warmPatience = 10 * time.Minute
	warmPause    = time.Second
)

// WarmEnvironment returns the environment of a set, and installs it first if it is not there: a run that asks
// for just these packages, in that image, will find it. It counts as used now.
func (s *Service) WarmEnvironment(ctx context.Context, set core.EnvironmentSet, progress func(core.Progress)) (core.Environment, error) {
	job, err := s.settings.plan(core.Request{Code: "pass", Image: set.Image, Dependencies: set.Packages, Tenant: set.Tenant}, false)
	if err != nil {
		return core.Environment{}, err
	}
	if len(job.requirements) == 0 {
		return core.Environment{}, core.Errorf(core.ErrInvalid, "no packages are named").WithHint("name some, such as: numpy pandas")
	}
	r := &run{Service: s, job: job, progress: progress, clock: newStopwatch(s.ports.Now)}
	if err := r.settle(ctx); err != nil {
		return core.Environment{}, err
	}
	image, err := r.ensureImage(ctx)
	if err != nil {
		return core.Environment{}, err
	}
	e, err := r.ensureEnvironment(ctx, image)
	if err != nil {
		return core.Environment{}, err
	}
	select {
	case <-s.haveCompiled(r.place, image, e):
	case <-ctx.Done():
	}
	return e, nil
}

// KeepWarm has all sets installed until ctx ends, and again once one was removed: one after the other, each
// begun while nothing runs, if there is such a moment. What is wrong with one keeps no other from it.
func (s *Service) KeepWarm(ctx context.Context, sets []core.EnvironmentSet) {
	if len(sets) == 0 {
		return
	}
	for pause, retry := time.Duration(0), warmRetry; sleep(ctx, pause); {
		if pause = warmEvery; s.warmAll(ctx, sets) {
			retry = warmRetry
			continue
		}
		pause = min(retry, warmEvery)
		retry = 2 * pause
	}
}

// warmAll reports whether all sets are installed.
func (s *Service) warmAll(ctx context.Context, sets []core.EnvironmentSet) bool {
	all := true
	for _, set := range sets {
		s.awaitCalm(ctx, warmPatience)
		err := safely(s.ports.Log, "installed packages ahead", func() error {
			_, err := s.WarmEnvironment(ctx, set, func(core.Progress) {})
			return err
		})
		if err != nil {
			all = false
			if ctx.Err() == nil {
				s.ports.Log.Warn("packages could not be installed ahead", "packages", set.Packages, "image", set.Image, "error", err)
			}
		}
	}
	return all
}

// awaitCalm returns once nothing runs, or when a server that is always busy has been waited for long enough.
func (s *Service) awaitCalm(ctx context.Context, patience time.Duration) {
	for waited := time.Duration(0); waited < patience && s.admission.inUse().runs > 0; waited += warmPause {
		if !sleep(ctx, warmPause) {
			return
		}
	}
}

// sleep reports whether ctx goes on after the pause.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
