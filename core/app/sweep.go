package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// The sweep's times: how often it runs, and how soon it looks again while the engine is away.
const (
	sweepEvery = time.Minute
	sweepRetry = 5 * time.Second
	sweepAgain = 10 * time.Second // after the first: what a killed server was making may come late
	sweepLimit = time.Minute
)

// Sweep removes what crashed servers left, until ctx ends. It begins at once, and waits patiently
// for an engine that is not there. Close waits for its end.
func (s *Service) Sweep(ctx context.Context) {
	ctx, release := s.whileOpen(ctx)
	defer release()
	s.boxes.work.do("looked after the pool", func() { s.pool.tend(ctx) })
	_ = safely(s.ports.Log, "began", func() error { // an error is seen again below
		err := s.recoverRuns(ctx) // before calls come to their sessions
		s.prepare(ctx)
		return err
	})
	for pause := sweepAgain; ; pause = sweepEvery {
		err := safely(s.ports.Log, "swept", func() error { return s.round(ctx) })
		if err != nil && ctx.Err() == nil {
			s.ports.Log.Debug("the sweep could not be done", "error", err)
			pause = sweepRetry
		}
		select {
		case <-time.After(pause):
		case <-s.boxes.wake:
			s.ports.Log.Debug("looking for a box that may have been left")
		case <-ctx.Done():
			return
		}
	}
}

// round is one sweep with all that goes with it.
func (s *Service) round(ctx context.Context) error {
	s.runs.saveAll(ctx)
	s.spending.flush(ctx)
	err := s.recoverRuns(ctx) // first: their boxes would look like leftovers
	if err == nil {
		err = s.SweepOnce(ctx)
	}
	s.forgetRuns(ctx)
	s.collectEnvironments(ctx)
	return err
}

// prepare gets to know the default backend, so that the first run need not wait for it, and has boxes wait
// there. What is wrong is told to whoever runs something.
func (s *Service) prepare(ctx context.Context) {
	usual := &run{Service: s}
	if err := usual.settle(ctx); err == nil {
		spec := s.settings.boxSpec(usual.image, "")
		spec.Mounts = []core.Mount{s.zone(usual.place, s.settings.Tenant)}
		s.pool.warm(usual.place, spec)
	}
}

// forgetRuns drops the results of runs that have been kept long enough, and the bytes of those that are too much.
func (s *Service) forgetRuns(ctx context.Context) {
	if _, err := s.ports.Runs.Sweep(ctx, s.ports.Now().Add(-s.settings.KeepRuns)); err != nil && ctx.Err() == nil {
		s.ports.Log.Warn("the results of old runs could not be removed", "error", err)
	}
	if s.settings.KeepRunBytes == 0 {
		return
	}
	n, err := s.ports.Runs.Trim(ctx, s.settings.KeepRunBytes)
	if err != nil && ctx.Err() == nil {
		s.ports.Log.Warn("what old runs printed and showed could not be removed", "error", err)
	}
	if n > 0 {
		s.ports.Log.Info("removed what old runs printed and showed", "runs", n)
	}
}

// collectEnvironments removes what is too old or too much.
func (s *Service) collectEnvironments(ctx context.Context) {
	if _, err := s.CollectEnvironments(ctx); err != nil && ctx.Err() == nil {
		s.ports.Log.Warn("environments that are too old or too large could not be removed", "error", err)
	}
}

// SweepOnce sweeps every backend in use.
func (s *Service) SweepOnce(ctx context.Context) error {
	return s.sweepAll(ctx, s.ports.Backends.InUse())
}

// sweepAll sweeps backends at the same time: one that hangs must not keep the others.
func (s *Service) sweepAll(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			errs[i] = safely(s.ports.Log, "swept a backend", func() error {
				on, err := s.place(name)
				if err != nil {
					return err
				}
				return s.sweep(ctx, on)
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// sweep compares the engine's truth with what this installation's servers still need, and
// removes the rest: boxes of dead servers, boxes past their time, volumes that no index knows.
// What belongs to another living server is left alone. Each removal has a time of its own: one that
// hangs must not keep the others.
func (s *Service) sweep(ctx context.Context, on *place) error {
	listing, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	looked := s.ports.Now()
	inventory, err := on.backend.List(listing, s.ports.Instance)
	if err != nil {
		return err
	}
	needed, err := s.needed(ctx, on, inventory.Boxes, looked)
	if err != nil {
		return err
	}
	s.missBoxes(ctx, on, inventory.Boxes, looked)
	swept := true
	for _, box := range inventory.Boxes {
		if !needed[box.ID] && s.isLeftover(box) {
			swept = s.sweepAway(ctx, leftover{on.name, "box", box.ID, box.Labels}, func(ctx context.Context, id string) error {
				return s.boxes.destroy(ctx, on, id)
			}) && swept
		}
	}
	if swept {
		s.boxes.cleared(on.name)
	}
	zones, err := s.knownZones(ctx)
	if err != nil {
		return err
	}
	for _, volume := range inventory.Volumes {
		if s.isOrphan(volume, zones) {
			s.sweepAway(ctx, leftover{on.name, "volume", volume.Name, volume.Labels}, on.backend.RemoveVolume)
		}
	}
	return s.sweepZones(ctx, on, inventory.Volumes, looked)
}

// needed are the boxes that the store knows: those of sessions that live, and of runs that somebody looks
// after. It is read after the inventory, so that what was opened in between is known.
func (s *Service) needed(ctx context.Context, on *place, boxes []core.Box, looked time.Time) (map[string]bool, error) {
	sessions, err := s.reviewSessions(ctx)
	if err != nil {
		return nil, err
	}
	s.missSessions(ctx, on, sessions, boxes, looked)
	s.recoverInstalls(ctx, on, sessions)
	needed, err := s.neededBoxes(ctx)
	if err != nil {
		return nil, err
	}
	for box := range sessions {
		needed[box] = true
	}
	return needed, nil
}

// missBoxes forgets boxes that somebody else has removed. An engine's list alone is not believed.
func (s *Service) missBoxes(ctx context.Context, on *place, boxes []core.Box, looked time.Time) {
	there := map[string]bool{}
	for _, box := range boxes {
		there[box.ID] = true
	}
	for _, id := range s.boxes.knownSince(on.name, looked) {
		if !there[id] && s.whyGone(ctx, on, id) != "" {
			s.boxes.forget(id)
		}
	}
}

// leftover is one thing that nobody needs any more.
type leftover struct {
	backend, kind, name string
	labels              core.Labels
}

// sweepAway removes one thing. What is still in use or cannot be reached is left to the next sweep.
func (s *Service) sweepAway(ctx context.Context, l leftover, remove func(context.Context, string) error) bool {
	removing, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	log := s.ports.Log.With("backend", l.backend, l.kind, l.name)
	if err := remove(removing, l.name); err != nil {
		log.Debug("a leftover could not be removed", "error", err)
		return false
	}
	log.Info("removed a leftover", "purpose", l.labels.Purpose, "server", l.labels.Server)
	return true
}

// isLeftover: nobody needs the box. One of this server's own that it does not know is one whose
// making or removal failed.
func (s *Service) isLeftover(box core.Box) bool {
	l, now := box.Labels, s.ports.Now()
	switch {
	case l.Expired(now):
		return true
	case l.Server == s.ports.Server:
		return s.boxes.isStray(box.ID)
	case l.Purpose == core.PurposeSession: // no store knows it: whoever made it has had the time to say so
		return now.Sub(box.Created) > 2*connectLimit || !s.ports.Alive(l.Server)
	default:
		return !s.ports.Alive(l.Server)
	}
}

// isOrphan: what was to be installed into the volume is in its zone by now, or its install did not come to an end;
// or it is a zone in which nothing is, of a server that is gone; or a download cache that is as old as an environment
// may get, which is rather filled anew.
func (s *Service) isOrphan(volume core.Volume, zones map[string]bool) bool {
	age, purpose := s.ports.Now().Sub(volume.Created), volume.Labels.Purpose
	alive := s.ports.Alive(volume.Labels.Server)
	if purpose == core.PurposeCache {
		return s.settings.EnvironmentAge > 0 && age > s.settings.EnvironmentAge
	}
	if purpose == core.PurposeZone {
		young := s.ports.isLasting(volume.Name) && age < zoneAge // a server that starts now may want it in this moment
		return !alive && !young && !zones[volume.Name] && !s.boxes.zones.knows(volume.Name)
	}
	return purpose == core.PurposeEnvironment && (!alive || age > s.settings.volumeLease())
}

// knownZones are those in which something is. It is read after the inventory, so that what came in between is known.
func (s *Service) knownZones(ctx context.Context) (map[string]bool, error) {
	all, err := s.ports.Index.List(ctx)
	if err != nil {
		return nil, err
	}
	zones := map[string]bool{}
	for _, e := range all {
		zones[e.Zone] = true
	}
	return zones, nil
}
