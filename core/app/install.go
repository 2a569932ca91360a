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
	defer i.pool.install()()
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "starting the installer"})
	courier, installed, err := i.fill(ctx, progress)
	if courier != nil {
		defer i.removeVolume(i.place, courier.volume)
		defer i.dismiss(courier)
	}
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

// fill has the packages installed into a volume, and returns the courier that can keep them.
func (i *install) fill(ctx context.Context, progress func(core.Progress)) (courier *errand, installed core.Installed, err error) {
	ticket, err := i.admit(ctx, boxClaim(i.place, i.installerSpec(i.kit(), i.tenant, "")), nil)
	if err != nil {
		return nil, core.Installed{}, err
	}
	defer ticket.release()
	set, err := i.equip(ctx)
	if err != nil {
		return nil, core.Installed{}, err
	}
	ticket.follow(i.boxes, set.installer.ID)
	defer set.installer.discard()
	courier = i.prepare(set)
	i.call(ctx, courier)
	err = safely(i.ports.Log, "installed packages in a box", func() error {
		installed, err = i.work(ctx, set, progress)
		return err
	})
	return courier, installed, err
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
func (i *install) work(ctx context.Context, set *outfit, progress func(core.Progress)) (core.Installed, error) {
	installed, err := i.ports.Installer.Install(ctx, set.installer.guest, set.ready, i.requirements, progress)
	if i.ports.Installer.UsesCache() {
		return installed, err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return installed, errors.Join(err, set.installer.remove(closing))
}

// boxClaim is what a box that is nobody's run needs.
func boxClaim(on *place, spec core.BoxSpec) claim {
	return claim{tenant: spec.Labels.Tenant, backend: on.name, memory: spec.Limits.MemoryBytes, kind: claimBox}
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
