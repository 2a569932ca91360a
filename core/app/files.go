package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/boxwright/boxwright/core"
)

// OpenFile returns a kept file of the owner's run, from its first byte. A file that is not there and a run of
// somebody else are the same core.ErrNotFound.
func (s *Service) OpenFile(ctx context.Context, owner, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, core.Artifact{}, err
	}
	owns, err := s.ownsFiles(ctx, owner, run)
	if err != nil {
		return nil, core.Artifact{}, err
	}
	if !owns {
		return nil, core.Artifact{}, errNoFile(run, name)
	}
	file, kept, err := s.ports.Artifacts.Open(ctx, run, name)
	if errors.Is(err, core.ErrNotFound) {
		err = errNoFile(run, name)
	}
	return file, kept, err
}

func errNoFile(run, name string) error {
	return core.Errorf(core.ErrNotFound, "run %q has no file %q", run, shortened(name)).
		WithHint("files are removed when they are old or when room is needed")
}

// ownsFiles: files outlive what is known of their run, so that it is kept whose they are. What nobody knows
// is from before that was so, and the local client's.
func (s *Service) ownsFiles(ctx context.Context, owner, run string) (bool, error) {
	if s.runs.find(owner, run) != nil {
		return true, nil
	}
	held, err := s.ports.Usage.Holding(ctx, run)
	if err == nil {
		return held.Owner == owner, nil
	}
	if !errors.Is(err, core.ErrNotFound) {
		return false, err
	}
	known, err := s.ports.Runs.Get(ctx, "", run)
	if errors.Is(err, core.ErrNotFound) {
		return owner == s.settings.Tenant, nil
	}
	return known.Owner == owner, err
}

// hold counts what is kept of a run's files, or gives back a negative amount. core.ErrExhausted says that the
// owner's quota has no room for it.
func (s *Service) hold(ctx context.Context, owner, run string, bytes int64) error {
	more := core.Holding{Run: run, Owner: owner, Bytes: bytes, Since: s.ports.Now()}
	most := s.quotaOf(ctx, owner).Files
	err := s.ports.Usage.Hold(ctx, more, most)
	if !errors.Is(err, core.ErrExhausted) {
		return s.minor(err, most)
	}
	if !s.makesRoom(ctx, owner) {
		return s.fullOfFiles(ctx, owner, err)
	}
	return s.minor(s.ports.Usage.Hold(ctx, more, most), most)
}

// releaseEvery is how often it is looked whether an owner's files are gone: who is at a quota asks for each file.
const releaseEvery = time.Minute

// makesRoom reports whether files of an owner turned out to be gone.
func (s *Service) makesRoom(ctx context.Context, owner string) bool {
	now := s.ports.Now()
	last, looked := s.released.Swap(owner, now)
	if at, isTime := last.(time.Time); looked && isTime && now.Sub(at) < releaseEvery {
		s.released.Store(owner, at)
		return false
	}
	released, _ := s.releaseOf(ctx, owner) // what went wrong is seen again by the sweep
	return released > 0
}

// minor lets a file be kept although that cannot be counted, where nothing depends on the count.
func (s *Service) minor(err error, most int64) error {
	if err == nil || most > 0 || errors.Is(err, core.ErrInvalid) {
		return err
	}
	s.ports.Log.Warn("whose a kept file is could not be kept", "error", err)
	return nil
}

// fullOfFiles says when there is room again.
func (s *Service) fullOfFiles(ctx context.Context, owner string, err error) error {
	meter, lookErr := s.filesOf(ctx, owner)
	full := core.Errorf(core.ErrExhausted, "%s", core.MessageOf(err))
	if lookErr != nil || meter.Free.IsZero() {
		return full
	}
	after := max(meter.Free.Sub(s.ports.Now()), 0)
	return full.WithHint("the oldest go in %s", after.Round(time.Second)).WithRetryAfter(after)
}

// ReleaseFiles forgets whose files were that are kept no longer.
func (s *Service) ReleaseFiles(ctx context.Context) error {
	_, err := s.releaseOf(ctx, "")
	return err
}

// releaseOf tells how many runs of the owner keep nothing any more.
func (s *Service) releaseOf(ctx context.Context, owner string) (released int, err error) {
	all, err := s.ports.Usage.Holdings(ctx, owner)
	if err != nil {
		return 0, err
	}
	for _, h := range all {
		if s.ports.Now().Sub(h.Since) < 2*collectLimit { // its first file may just be on the way
			continue
		}
		files, err := s.ports.Artifacts.List(ctx, h.Run)
		if err == nil && len(files) == 0 {
			err = s.ports.Usage.Release(ctx, h.Run)
			released++
		}
		if err != nil {
			return released, err
		}
	}
	return released, nil
}
