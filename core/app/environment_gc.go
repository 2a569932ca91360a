package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Keep bounds what stays installed. What a run or a session uses stays in any case.
type Keep struct {
	MaxSize int64         // bytes of all environments on one backend; 0 is no bound
	MaxAge  time.Duration // how long those stay that nobody uses; 0 is for ever
}

// Environments lists what is installed, by key, without locks and reports.
func (s *Service) Environments(ctx context.Context) ([]core.Environment, error) {
	all, err := s.ports.Index.List(ctx)
	return slices.DeleteFunc(all, core.Environment.IsRemains), err
}

// CollectEnvironments removes those that are too old, and the least recently used ones as long as all together are
// too large. Nobody gets them from now on; their folders go with a later sweep, as a run that has just begun may
// still look into one.
func (s *Service) CollectEnvironments(ctx context.Context) (core.Collected, error) {
	all, err := s.ports.Index.List(ctx)
	if err != nil {
		return core.Collected{}, err
	}
	lived, err := s.livedIn(ctx)
	if err != nil {
		return core.Collected{}, err
	}
	var done core.Collected
	for _, e := range s.settings.dispensable(all, lived, s.ports.Now()) {
		if err := s.retire(ctx, e); err != nil {
			return done, err
		}
		done.Environments++
		done.Bytes += e.Size
	}
	return done, nil
}

// livedIn are the folders that sessions have on their paths.
func (s *Service) livedIn(ctx context.Context) (map[string]bool, error) {
	sessions, err := s.ports.Sessions.List(ctx, "")
	if err != nil {
		return nil, err
	}
	lived := map[string]bool{}
	for _, session := range sessions {
		for _, path := range session.PythonPath {
			lived[path] = lived[path] || session.Lost == ""
		}
	}
	return lived, nil
}

// dispensable are the environments that are to go.
func (s Settings) dispensable(all []core.Environment, lived map[string]bool, now time.Time) (gone []core.Environment) {
	free := slices.DeleteFunc(slices.Clone(all), func(e core.Environment) bool {
		return e.IsRemains() || lived[e.Path()] || now.Sub(e.Used) <= s.useLease()
	})
	slices.SortStableFunc(free, func(a, b core.Environment) int { return a.Used.Compare(b.Used) })
	sizes := map[string]int64{} // by backend
	for _, e := range all {
		if !e.IsRemains() {
			sizes[e.Backend] += e.Size
		}
	}
	for _, e := range free {
		tooLarge := s.Keep.MaxSize > 0 && sizes[e.Backend] > s.Keep.MaxSize
		unused := s.Keep.MaxAge > 0 && now.Sub(e.Used) > s.Keep.MaxAge
		outlived := s.EnvironmentAge > 0 && now.Sub(e.Created) > s.EnvironmentAge
		if tooLarge || unused || outlived {
			gone = append(gone, e)
			sizes[e.Backend] -= e.Size
		}
	}
	return gone
}

// useLease is how long after its use was noted an environment may still be used by the same run.
func (s Settings) useLease() time.Duration {
	return useEvery + s.MaxWait + connectLimit + s.MaxTimeout + lifeMargin
}

// retire takes an environment out of the index. Its folder is remains from now on.
func (s *Service) retire(ctx context.Context, e core.Environment) error {
	if err := s.ports.Index.Put(ctx, e.Remains(s.ports.Now())); err != nil {
		return err
	}
	s.ports.Log.Info("an environment is removed", "packages", strings.Join(e.Names, " "), "bytes", e.Size, "used", e.Used)
	return s.ports.Index.Delete(ctx, e.Key)
}

// sweepZones removes the remains on a backend, and forgets what was in a zone that is gone. volumes are the
// backend's, as they were at the time looked.
func (s *Service) sweepZones(ctx context.Context, on *place, volumes []core.Volume, looked time.Time) error {
	all, err := s.ports.Index.List(ctx)
	if err != nil {
		return err
	}
	lived, err := s.livedIn(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e core.Environment) bool { return e.Backend != on.name })
	for _, e := range strays(all, volumes, looked) {
		if err := s.retire(ctx, e); err != nil {
			return err
		}
	}
	remains, redundant := s.settings.remains(all, lived, s.ports.Now())
	for _, e := range redundant {
		if err := s.ports.Index.Delete(ctx, e.Key); err != nil {
			return err
		}
	}
	for zone, gone := range remains {
		if err := s.clear(ctx, on, zone, gone); err != nil {
			s.ports.Log.Warn("what is left of environments could not be removed; the next sweep tries again", "backend", on.name, "error", err)
		}
	}
	return nil
}

// strays are the environments whose zone was not there.
func strays(all []core.Environment, volumes []core.Volume, looked time.Time) []core.Environment {
	there := map[string]bool{}
	for _, volume := range volumes {
		there[volume.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(e core.Environment) bool {
		return e.IsRemains() || there[e.Zone] || !e.Created.Before(looked)
	})
}

// remains are the folders that nobody uses any more, by zone. Redundant is what says of an environment's folder that
// it is none: its install has come to its end, but for that.
func (s Settings) remains(all []core.Environment, lived map[string]bool, now time.Time) (due map[string][]core.Environment, redundant []core.Environment) {
	whole := map[string]bool{}
	for _, e := range all {
		whole[e.Path()] = whole[e.Path()] || !e.IsRemains()
	}
	due = map[string][]core.Environment{}
	for _, e := range all {
		switch {
		case !e.IsRemains() || lived[e.Path()] || now.Sub(e.Created) <= max(s.useLease(), s.environmentLease()):
		case whole[e.Path()]:
			redundant = append(redundant, e)
		default:
			due[e.Zone] = append(due[e.Zone], e)
		}
	}
	return due, redundant
}

// clearAtOnce bounds how many folders one courier removes.
const clearAtOnce = 100

// clear has a courier remove folders from a zone.
func (s *Service) clear(ctx context.Context, on *place, zone string, remains []core.Environment) error {
	remains = remains[:min(len(remains), clearAtOnce)]
	if len(remains) == 0 {
		return nil
	}
	image, err := s.courierImage(ctx, on)
	if err != nil {
		return err
	}
	args := []string{"drop"}
	for _, e := range remains {
		args = append(args, e.Path())
	}
	if _, err := s.courier(ctx, on, courierSpec(s.settings, image, zone, ""), args...); err != nil {
		return err
	}
	for _, e := range remains {
		if err := s.ports.Index.Delete(ctx, e.Key); err != nil {
			return err
		}
	}
	s.ports.Log.Info("removed what was left of environments", "backend", on.name, "folders", len(remains))
	return nil
}

// courierImage is any image that is there: nothing of it is run.
func (s *Service) courierImage(ctx context.Context, on *place) (core.Image, error) {
	if image := on.lastImage(); image.Digest != "" {
		return image, nil
	}
	info, err := on.told(ctx, s.settings.Unenforced)
	if err != nil {
		return core.Image{}, err
	}
	ref, err := s.settings.pickImage("", "", info)
	if err != nil {
		return core.Image{}, err
	}
	return on.backend.EnsureImage(ctx, ref, s.settings.Pull, func(core.Progress) {})
}
