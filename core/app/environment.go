package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// environment returns an installed environment of the requirements for the image. fresh tells
// that it was installed just now. Callers that want the same at the same time share one install,
// which is given up only when the last of them is gone.
func (s *Service) environment(ctx context.Context, on *place, image core.Image, requirements []core.Requirement, tenant string, progress func(core.Progress)) (e core.Environment, fresh bool, err error) {
	zone := s.zone(on, tenant)
	key := environmentKey(zone.Volume, image, requirements, s.ports.Installer.Fingerprint())
	e, err = s.ports.Index.Get(ctx, key)
	if err == nil {
		s.used(ctx, e)
		s.haveCompiled(on, image, e)
		return e, false, nil
	}
	if !errors.Is(err, core.ErrNotFound) {
		return core.Environment{}, false, err
	}
	e, err = s.installs.do(ctx, key, progress, func(ctx context.Context, progress func(core.Progress)) (core.Environment, error) {
		ctx, release := s.whileOpen(ctx)
		defer release()
		job := install{Service: s, place: on, zone: zone, key: key, image: image, requirements: requirements, tenant: tenant}
		var made core.Environment
		err := safely(s.ports.Log, "installed packages", func() (err error) {
			made, err = job.do(ctx, progress)
			return err
		})
		return made, err
	})
	if err == nil {
		s.haveCompiled(on, image, e)
	}
	return e, true, err
}

// environmentKey names what an environment holds: equal keys are equal environments. Two zones
// never share one: a box has the volume of its own only.
func environmentKey(zone string, image core.Image, requirements []core.Requirement, fingerprint string) string {
	h := sha256.New()
	parts := []string{"2", zone, image.Digest, image.Platform, fingerprint}
	for _, r := range requirements {
		parts = append(parts, r.String())
	}
	h.Write([]byte(strings.Join(parts, "\n"))) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// zone is what every box that runs a tenant's code has of environments: those of its trust zone. Tenants share one
// unless what is installed comes from where credentials are needed. A program enters a folder whose name it was
// told, and lists nothing.
func (s *Service) zone(on *place, tenant string) core.Mount {
	whose := "shared"
	if s.ports.Installer.Private() {
		whose = "tenant\n" + tenant
	}
	sum := sha256.Sum256([]byte(on.name + "\n" + whose))
	return core.Mount{Volume: zonePrefix + s.ports.zones() + "-" + hex.EncodeToString(sum[:6]), Path: core.GuestEnvironments}
}

const zonePrefix = "boxwright-zone-"

// zoneAge is how long a zone stays in which nothing is and whose server is gone, if the next server has it too.
const zoneAge = 24 * time.Hour

// isLasting reports whether every server of the installation has the zone.
func (p Ports) isLasting(zone string) bool { return strings.HasPrefix(zone, zonePrefix+p.Instance+"-") }

// zones is in the names of this server's zones. An index that its end forgets has none that another server knows.
func (p Ports) zones() string {
	if p.Forgetful {
		return p.Server
	}
	return p.Instance
}

// useEvery is how often a use of an environment is noted, at most.
const useEvery = time.Minute

// used notes that a run or a session uses an environment from now on.
func (s *Service) used(ctx context.Context, e core.Environment) {
	now := s.ports.Now()
	if now.Sub(e.Used) < useEvery {
		return
	}
	if err := s.ports.Index.Touch(ctx, e.Key, now); err != nil && !errors.Is(err, core.ErrNotFound) {
		s.ports.Log.Warn("the use of an environment could not be noted", "key", e.Key, "error", err)
	}
}

// forgetEnvironment has a lost environment installed again by whoever asks for it next.
func (s *Service) forgetEnvironment(ctx context.Context, e core.Environment) error {
	s.ports.Log.Warn("an environment is gone from its zone; it is installed again", "key", e.Key, "zone", e.Zone)
	return s.ports.Index.Delete(ctx, e.Key)
}
