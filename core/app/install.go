package app

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// install is one environment being installed: in a box that has the network but none of the user's code, into a
// volume that no other box has. A second box, which runs nothing but the agent, then puts it into its zone.
type install struct {
	*Service
	*place
	zone         core.Mount
	key          string
	image        core.Image
	requirements []core.Requirement
	tenant       string
}

func (i *install) do(ctx context.Context, progress func(core.Progress)) (core.Environment, error) {
	ctx, cancel := context.WithTimeout(ctx, i.settings.InstallLimit)
	defer cancel()
	name := "boxwright-env-" + i.key[:16] + "-" + i.ports.NewID()
	defer i.removeVolume(i.place, name) // also if an engine that was cut off has made it all the same
	volume, err := i.backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: i.labels(core.PurposeEnvironment)})
	if err != nil {
		return core.Environment{}, err
	}
	courier := i.prepare(volume)
	defer i.dismiss(courier)
	installed, err := i.fill(ctx, volume, courier, progress)
	if err != nil {
		return core.Environment{}, i.explain(ctx, err)
	}
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "keeping what was installed"})
	e, err := i.keep(ctx, courier, installed)
	return e, i.explain(ctx, err)
}

// describe is the environment that is to be, with a name that nobody guesses.
func (i *install) describe(installed core.Installed) core.Environment {
	e := core.Environment{
		Key: i.key, Backend: i.name, Zone: i.zone.Volume, Folder: strings.ToLower(rand.Text()), Language: core.LanguagePython,
		Lock: installed.Lock, Report: installed.Report, Created: i.ports.Now(), Used: i.ports.Now(),
	}
	for _, r := range i.requirements {
		e.Names = append(e.Names, r.String())
	}
	return e
}

// fill has the volume filled. The courier's box is made meanwhile.
func (i *install) fill(ctx context.Context, volume core.Volume, courier *errand, progress func(core.Progress)) (installed core.Installed, err error) {
	mounts := []core.Mount{{Volume: volume.Name, Path: core.GuestEnvironment, Writable: true}}
	if i.ports.Installer.UsesCache() {
		cache, err := i.cache(ctx, i.place, i.image, i.labels(core.PurposeCache))
		if err != nil {
			return core.Installed{}, err
		}
		mounts = append(mounts, cache)
	}
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "starting the installer"})
	spec := core.BoxSpec{
		Image: i.image.Ref, Digest: i.image.Digest, Limits: i.settings.InstallSize, Network: i.ports.Installer.Network(), Mounts: mounts,
		Labels: core.Labels{Tenant: i.tenant, Purpose: core.PurposeInstall}, Unenforced: i.unenforced(),
	}
	err = i.within(ctx, i.place, spec, func(box *box) error {
		i.call(ctx, courier)
		installed, err = i.work(ctx, box, progress)
		return err
	})
	return installed, err
}

// within does something in a box of its own that is nobody's run. The box goes in the background.
func (s *Service) within(ctx context.Context, on *place, spec core.BoxSpec, do func(*box) error) error {
	ticket, err := s.admit(ctx, boxClaim(on, spec), nil)
	if err != nil {
		return err
	}
	defer ticket.release()
	box, err := s.boxes.open(ctx, on, spec, s.settings.InstallLimit)
	if err != nil {
		return err
	}
	ticket.follow(s.boxes, box.ID)
	defer box.discard()
	return safely(s.ports.Log, "worked in a box", func() error { return do(box) })
}

// work installs into a box. If code of packages may run there, it returns once that has ended for good.
func (i *install) work(ctx context.Context, box *box, progress func(core.Progress)) (core.Installed, error) {
	installed, err := i.ports.Installer.Install(ctx, box.guest, i.requirements, progress)
	if i.ports.Installer.UsesCache() {
		return installed, err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return installed, errors.Join(err, box.remove(closing))
}

// boxClaim is what a box that is nobody's run needs.
func boxClaim(on *place, spec core.BoxSpec) claim {
	return claim{tenant: spec.Labels.Tenant, backend: on.name, memory: spec.Limits.MemoryBytes, kind: claimBox}
}

// unenforced: an installer that runs no code of packages may have limits that do not hold; one that
// does is under the operator's policy like any code.
func (i *install) unenforced() core.Unenforced {
	if i.ports.Installer.UsesCache() {
		return core.UnenforcedWarn
	}
	return i.settings.Unenforced
}

func (i *install) explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
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

// removeVolume removes what an install needed, in the background. The box that holds the volume may itself just be
// on its way out. The sweep finds what could not be removed.
func (s *Service) removeVolume(on *place, name string) {
	s.boxes.work.do("removed a volume", func() {
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
