package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// environment returns an installed environment of the requirements for the image. fresh tells
// that it was installed just now. Callers that want the same at the same time share one install,
// which is given up only when the last of them is gone.
func (s *Service) environment(ctx context.Context, on *place, image core.Image, requirements []core.Requirement, tenant string, progress func(core.Progress)) (e core.Environment, fresh bool, err error) {
	key := environmentKey(on.name, image, requirements, s.ports.Installer.Fingerprint())
	e, err = s.ports.Index.Get(ctx, key)
	if err == nil || !errors.Is(err, core.ErrNotFound) {
		return e, false, err
	}
	e, err = s.installs.do(ctx, key, progress, func(ctx context.Context, progress func(core.Progress)) (core.Environment, error) {
		ctx, release := s.whileOpen(ctx)
		defer release()
		job := install{Service: s, place: on, key: key, image: image, requirements: requirements, tenant: tenant}
		return job.do(ctx, progress)
	})
	return e, true, err
}

// environmentKey names what an environment holds: equal keys are equal environments. Two backends
// never share one, though they may have the same image: a volume is in one engine.
func environmentKey(backend string, image core.Image, requirements []core.Requirement, fingerprint string) string {
	h := sha256.New()
	parts := []string{"1", backend, image.Digest, image.Platform, fingerprint}
	for _, r := range requirements {
		parts = append(parts, r.String())
	}
	h.Write([]byte(strings.Join(parts, "\n"))) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// install is one environment being installed: in a box that has the network but none of the
// user's code, into a volume that no other box has yet.
type install struct {
	*Service
	*place
	key          string
	image        core.Image
	requirements []core.Requirement
	tenant       string
}

func (i *install) do(ctx context.Context, progress func(core.Progress)) (core.Environment, error) {
	ctx, cancel := context.WithTimeout(ctx, i.settings.InstallLimit)
	defer cancel()
	name := "boxwright-env-" + i.key[:16] + "-" + i.ports.NewID()[:8]
	volume, err := i.backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: i.labels(core.PurposeEnvironment)})
	if err != nil {
		i.removeVolume(i.place, name) // an engine that was cut off may have made it all the same
		return core.Environment{}, err
	}
	installed, err := i.fill(ctx, volume, progress)
	if err != nil {
		i.removeVolume(i.place, volume.Name)
		return core.Environment{}, i.explain(ctx, err)
	}
	e := core.Environment{Key: i.key, Backend: i.name, Volume: volume.Name, Lock: installed.Lock, Report: installed.Report, Created: i.ports.Now()}
	for _, r := range i.requirements {
		e.Names = append(e.Names, r.String())
	}
	if err := i.ports.Index.Put(ctx, e); err != nil {
		i.removeVolume(i.place, volume.Name)
		return core.Environment{}, err
	}
	return e, nil
}

// fill returns once the installer's box is gone: nothing writes to the volume any more.
func (i *install) fill(ctx context.Context, volume core.Volume, progress func(core.Progress)) (installed core.Installed, err error) {
	mounts := []core.Mount{{Volume: volume.Name, Path: core.GuestEnvironment, Writable: true}}
	if i.ports.Installer.UsesCache() {
		cache, err := i.backend.EnsureVolume(ctx, core.Volume{
			Name:   cacheName(i.ports.Instance, i.name, i.image),
			Labels: i.labels(core.PurposeCache),
		})
		if err != nil {
			return core.Installed{}, err
		}
		mounts = append(mounts, core.Mount{Volume: cache.Name, Path: core.GuestCache, Writable: true})
	}
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "starting the installer"})
	ticket, err := i.admit(ctx, claim{tenant: i.tenant, backend: i.name, memory: i.settings.InstallSize.MemoryBytes, kind: claimBox}, nil)
	if err != nil {
		return core.Installed{}, err
	}
	defer ticket.release()
	box, err := i.boxes.open(ctx, i.place, core.BoxSpec{
		Image:      i.image.Ref,
		Digest:     i.image.Digest,
		Limits:     i.settings.InstallSize,
		Network:    core.NetworkFull,
		Mounts:     mounts,
		Labels:     core.Labels{Tenant: i.tenant, Purpose: core.PurposeInstall},
		Unenforced: i.unenforced(),
	}, i.settings.InstallLimit)
	if err != nil {
		return core.Installed{}, err
	}
	ticket.follow(i.boxes, box.ID)
	installed, err = i.ports.Installer.Install(ctx, box.guest, i.requirements, progress)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if removeErr := box.remove(closing); removeErr != nil {
		box.discard()
		return core.Installed{}, errors.Join(err, removeErr)
	}
	return installed, err
}

// unenforced: an installer that runs no code of packages may have limits that do not hold; one that
// does is under the operator's policy like any code.
func (i *install) unenforced() core.Unenforced {
	if i.ports.Installer.UsesCache() {
		return core.UnenforcedWarn
	}
	return i.settings.Unenforced
}

// cacheName gives each image a download cache of its own: what the programs of one image wrote is
// not what those of another, better trusted one run. Nor do two backends share one: they differ in
// how well they hold a program in.
func cacheName(instance, backend string, image core.Image) string {
	sum := sha256.Sum256([]byte(backend + "\n" + image.Digest))
	return "boxwright-cache-" + instance + "-" + hex.EncodeToString(sum[:6])
}

func (i *install) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrDependency, "installing %s took longer than %s", i.names(), i.settings.InstallLimit).
			WithHint("ask for fewer packages, or ask the operator to raise dependencies.timeout")
	}
	return err
}

func (i *install) names() string {
	names := make([]string, len(i.requirements))
	for n, r := range i.requirements {
		names[n] = r.Name
	}
	return strings.Join(names, ", ")
}

func (i *install) labels(purpose core.Purpose) core.Labels {
	return core.Labels{Instance: i.ports.Instance, Server: i.ports.Server, Tenant: i.tenant, Purpose: purpose}
}

// removeVolume leaves nothing of a failed install. The box that holds the volume may itself just be
// on its way out. The sweep finds what could not be removed.
func (s *Service) removeVolume(on *place, name string) {
	s.boxes.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		defer cancel()
		err := on.backend.RemoveVolume(ctx, name)
		for errors.Is(err, core.ErrUnavailable) && ctx.Err() == nil {
			time.Sleep(removePause)
			err = on.backend.RemoveVolume(ctx, name)
		}
		if err != nil {
			s.ports.Log.Warn("a volume could not be removed; the next sweep tries again", "backend", on.name, "volume", name, "error", err)
		}
	})
}

// flights lets callers that want the same environment share one install.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

type flight struct {
	cancel   context.CancelFunc
	done     chan struct{}
	waiting  int
	watchers map[int]func(core.Progress)
	result   core.Environment
	err      error
}

type installFunc = func(ctx context.Context, progress func(core.Progress)) (core.Environment, error)

func (f *flights) do(ctx context.Context, key string, progress func(core.Progress), work installFunc) (core.Environment, error) {
	shared, seat := f.board(ctx, key, progress, work)
	defer f.leave(key, shared, seat)
	select {
	case <-shared.done:
		return shared.result, shared.err
	case <-ctx.Done():
		return core.Environment{}, cancelled(ctx)
	}
}

func (f *flights) board(ctx context.Context, key string, progress func(core.Progress), work installFunc) (shared *flight, seat int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared = f.open[key]
	if shared == nil {
		shared = &flight{done: make(chan struct{}), watchers: map[int]func(core.Progress){}}
		flying, cancel := context.WithCancel(context.WithoutCancel(ctx))
		shared.cancel = cancel
		if f.open == nil {
			f.open = map[string]*flight{}
		}
		f.open[key] = shared
		go f.fly(flying, key, shared, work)
	}
	seat = len(shared.watchers)
	for shared.watchers[seat] != nil {
		seat++
	}
	shared.waiting++
	shared.watchers[seat] = progress
	return shared, seat
}

func (f *flights) fly(ctx context.Context, key string, shared *flight, work installFunc) {
	shared.result, shared.err = work(ctx, func(p core.Progress) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, watch := range shared.watchers {
			watch(p)
		}
	})
	f.mu.Lock()
	if f.open[key] == shared {
		delete(f.open, key)
	}
	f.mu.Unlock()
	close(shared.done)
}

// leave gives the seat back; the last one out ends the install. Whoever comes after that begins
// a new one.
func (f *flights) leave(key string, shared *flight, seat int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(shared.watchers, seat)
	if shared.waiting--; shared.waiting > 0 {
		return
	}
	shared.cancel()
	if f.open[key] == shared {
		delete(f.open, key)
	}
}

// environmentLease is how long a volume that no index knows may be one that is just being filled.
func (s Settings) environmentLease() time.Duration { return s.InstallLimit + lifeMargin }
