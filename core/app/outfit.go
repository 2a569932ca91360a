package app

import (
	"context"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// kit says what an installation needs besides packages. An outfit that waits serves whoever needs the same.
type kit struct {
	on    *place
	image core.Image
	zone  core.Mount
}

// outfit is what an installation works with: a volume of its own, the box that fills it, and that of the courier who
// keeps what is in it. It is used once.
type outfit struct {
	volume    string
	installer *box
	ready     core.Ready
	courier   *box // nil unless it waited
}

func (i *install) kit() kit { return kit{on: i.place, image: i.image, zone: i.zone} }

// kindOf is the kind of outfits that wait for such installations.
func (s *Service) kindOf(k kit) kind {
	return kind{
		on: k.on, spec: s.installerSpec(k, "", ""), zone: k.zone.Volume, boxes: 2,
		make: func(ctx context.Context) (*box, error) { return s.layOut(ctx, k) },
	}
}

// equip returns an outfit that waits, or else makes one without a courier.
func (i *install) equip(ctx context.Context) (*outfit, error) {
	if taken := i.pool.claim(i.kindOf(i.kit()), i.settings.InstallLimit); taken != nil {
		return taken.outfit, nil
	}
	defer i.pool.giveWay()()
	return i.makeOutfit(ctx, i.kit(), i.tenant, i.settings.InstallLimit)
}

// layOut makes an outfit that waits: nobody's, and with nothing in it that somebody could ask for. It is handed out as
// its installer's box, and goes with that.
func (s *Service) layOut(ctx context.Context, k kit) (*box, error) {
	lifetime := s.settings.Pool.MaxAge + s.settings.InstallLimit
	set, err := s.makeOutfit(ctx, k, "", lifetime)
	if err != nil {
		return nil, err
	}
	err = safely(s.ports.Log, "prepared an installer", func() error {
		if set.ready, err = s.ports.Installer.Prepare(ctx, set.installer.guest); err != nil {
			return err
		}
		set.courier, err = s.boxes.make(ctx, k.on, courierSpec(s.settings, k.image, k.zone.Volume, set.volume), lifetime)
		return err
	})
	if err != nil {
		set.installer.discard()
		s.removeVolume(k.on, set.volume)
		return nil, err
	}
	return &box{Box: set.installer.Box, guest: set.installer.guest, outfit: set, discard: sync.OnceFunc(func() {
		set.installer.discard()
		set.courier.discard()
		s.removeVolume(k.on, set.volume)
	})}, nil
}

// makeOutfit makes a volume and the box that fills it.
func (s *Service) makeOutfit(ctx context.Context, k kit, tenant string, lifetime time.Duration) (*outfit, error) {
	volume := "boxwright-env-" + s.ports.NewID()
	installer, err := s.makeInstaller(ctx, k, tenant, volume, lifetime)
	if err != nil {
		s.removeVolume(k.on, volume) // also if an engine that was cut off has made it all the same
		return nil, err
	}
	return &outfit{volume: volume, installer: installer}, nil
}

func (s *Service) makeInstaller(ctx context.Context, k kit, tenant, volume string, lifetime time.Duration) (*box, error) {
	labels := core.Labels{Instance: s.ports.Instance, Server: s.ports.Server, Tenant: tenant, Purpose: core.PurposeEnvironment}
	if _, err := k.on.backend.EnsureVolume(ctx, core.Volume{Name: volume, Labels: labels}); err != nil {
		return nil, err
	}
	if s.ports.Installer.UsesCache() {
		if _, err := s.cache(ctx, k.on, k.image, labels); err != nil {
			return nil, err
		}
	}
	return s.boxes.make(ctx, k.on, s.installerSpec(k, tenant, volume), lifetime)
}

// installerSpec is a box that has the network but none of anybody's code. It fills the volume.
func (s *Service) installerSpec(k kit, tenant, volume string) core.BoxSpec {
	mounts := []core.Mount{{Volume: volume, Path: core.GuestEnvironment, Writable: true}}
	if s.ports.Installer.UsesCache() {
		mounts = append(mounts, s.cacheMount(k.on, k.image))
	}
	return core.BoxSpec{
		Image: k.image.Ref, Digest: k.image.Digest, Limits: s.settings.InstallSize, Network: s.ports.Installer.Network(), Mounts: mounts,
		Labels: core.Labels{Tenant: tenant, Purpose: core.PurposeInstall}, Unenforced: s.installUnenforced(),
	}
}

// installUnenforced: an installer that runs no code of packages may have limits that do not hold; one that
// does is under the operator's policy like any code.
func (s *Service) installUnenforced() core.Unenforced {
	if s.ports.Installer.UsesCache() {
		return core.UnenforcedWarn
	}
	return s.settings.Unenforced
}

// install says that an installation is under way, until done is called.
func (p *pool) install() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.installing++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.installing--
		p.installed = p.ports.Now()
		p.stir()
	}
}
