package app

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// The sweep's times: how often it runs, and how soon it looks again while the engine is away.
const (
	sweepEvery = time.Minute
	sweepRetry = 5 * time.Second
	sweepLimit = time.Minute
)

// Sweep removes what crashed servers left, until ctx ends. It begins at once, and waits patiently
// for an engine that is not there.
func (s *Service) Sweep(ctx context.Context) {
	for {
		pause := sweepEvery
		if err := s.SweepOnce(ctx); err != nil && ctx.Err() == nil {
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

// SweepOnce compares the engine's truth with what this installation's servers still need, and
// removes the rest: boxes of dead servers, boxes past their time, volumes that no index knows.
// What belongs to another living server is left alone. Each removal has a time of its own: one that
// hangs must not keep the others.
func (s *Service) SweepOnce(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	inventory, err := s.ports.Backend.List(listing, s.ports.Instance)
	if err != nil {
		return err
	}
	swept := true
	for _, box := range inventory.Boxes {
		if s.isLeftover(box) {
			swept = s.sweepAway(ctx, "box", box.ID, box.Labels, s.boxes.destroy) && swept
		}
	}
	if swept {
		s.boxes.cleared()
	}
	known, err := s.knownVolumes(ctx)
	if err != nil {
		return err
	}
	for _, volume := range inventory.Volumes {
		if s.isOrphan(volume, known) {
			s.sweepAway(ctx, "volume", volume.Name, volume.Labels, s.ports.Backend.RemoveVolume)
		}
	}
	return nil
}

// sweepAway removes one thing. What is still in use or cannot be reached is left to the next sweep.
func (s *Service) sweepAway(ctx context.Context, kind, name string, labels core.Labels, remove func(context.Context, string) error) bool {
	removing, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := remove(removing, name); err != nil {
		s.ports.Log.Debug("a leftover could not be removed", kind, name, "error", err)
		return false
	}
	s.ports.Log.Info("removed a leftover", kind, name, "purpose", labels.Purpose, "server", labels.Server)
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
	default:
		return !s.ports.Alive(l.Server)
	}
}

// isOrphan: the volume was to hold an environment, and its install did not come to an end; or it is a
// download cache that is as old as an environment may get, which is rather filled anew.
func (s *Service) isOrphan(volume core.Volume, known map[string]bool) bool {
	if age := s.settings.EnvironmentAge; volume.Labels.Purpose == core.PurposeCache && age > 0 {
		return s.ports.Now().Sub(volume.Created) > age
	}
	if volume.Labels.Purpose != core.PurposeEnvironment || known[volume.Name] {
		return false
	}
	if s.ports.Alive(volume.Labels.Server) {
		return s.ports.Now().Sub(volume.Created) > s.settings.environmentLease()
	}
	return true
}

// outlived: installed too long ago. Whoever asks for it again gets it anew.
func (s *Service) outlived(e core.Environment) bool {
	age := s.settings.EnvironmentAge
	return age > 0 && s.ports.Now().Sub(e.Created) > age
}

// knownVolumes forgets environments that are too old, and returns the volumes of the others. It is read after the inventory, so that a volume put into the index in between is known.
func (s *Service) knownVolumes(ctx context.Context) (map[string]bool, error) {
	environments, err := s.ports.Index.List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, e := range environments {
		if s.outlived(e) {
			// Out of the index first: from here on nobody mounts it, and an orphan goes with the sweep.
			if err := s.ports.Index.Delete(ctx, e.Key); err != nil {
				return nil, err
			}
			continue
		}
		known[e.Volume] = true
	}
	return known, nil
}
