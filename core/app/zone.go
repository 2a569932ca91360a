package app

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// zones are the volumes of zones that are there, as far as this server knows.
type zones struct {
	mu   sync.Mutex
	made map[string]bool // by name, which says the backend too
}

// ensure makes the zone's volume if it was not seen before.
func (z *zones) ensure(ctx context.Context, on *place, zone core.Mount, labels core.Labels) error {
	if z.knows(zone.Volume) {
		return nil
	}
	labels = core.Labels{Instance: labels.Instance, Server: labels.Server, Purpose: core.PurposeZone}
	if _, err := on.backend.EnsureVolume(ctx, core.Volume{Name: zone.Volume, Labels: labels}); err != nil {
		return err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.made == nil {
		z.made = map[string]bool{}
	}
	z.made[zone.Volume] = true
	return nil
}

func (z *zones) knows(name string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.made[name]
}

func (z *zones) forget(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.made, name)
}

// createWithZone makes a box, and its zone's volume before if need be. One that somebody has removed, such as the
// sweep of a server that did not know yet that it is wanted, is made again, without what was in it.
func (b *boxes) createWithZone(ctx context.Context, on *place, spec core.BoxSpec) (box core.Box, err error) {
	err = safely(b.ports.Log, "made a box", func() error {
		box, err = b.tryWithZone(ctx, on, spec)
		return err
	})
	return box, err
}

func (b *boxes) tryWithZone(ctx context.Context, on *place, spec core.BoxSpec) (core.Box, error) {
	at := slices.IndexFunc(spec.Mounts, func(m core.Mount) bool { return m.Path == core.GuestEnvironments })
	if at < 0 {
		return on.backend.Create(ctx, spec)
	}
	zone := spec.Mounts[at]
	if err := b.zones.ensure(ctx, on, zone, spec.Labels); err != nil {
		return core.Box{}, err
	}
	box, err := on.backend.Create(ctx, spec)
	if !errors.Is(err, core.ErrNotFound) {
		return box, err
	}
	b.zones.forget(zone.Volume)
	if err := b.zones.ensure(ctx, on, zone, spec.Labels); err != nil {
		return core.Box{}, err
	}
	return on.backend.Create(ctx, spec)
}
