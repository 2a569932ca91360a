// Package mutants has backends that each break one sentence of the execution port. They show that the
// suite has teeth, and that whoever runs it says which sentence is broken.
package mutants

import (
	"context"
	"io"
	"maps"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Mutant is a backend that does some methods in a way of its own.
type Mutant struct {
	execution.Backend
	info         func(context.Context) (core.Info, error)
	ensureImage  func(context.Context, string, core.PullPolicy, func(core.Progress)) (core.Image, error)
	create       func(context.Context, core.BoxSpec) (core.Box, error)
	dial         func(context.Context, string) (io.ReadWriteCloser, error)
	list         func(context.Context, string) (core.Inventory, error)
	destroy      func(context.Context, string) error
	ensureVolume func(context.Context, core.Volume) (core.Volume, error)
	removeVolume func(context.Context, string) error
}

// Info implements execution.Backend.
func (m Mutant) Info(ctx context.Context) (core.Info, error) {
	if m.info != nil {
		return m.info(ctx)
	}
	return m.Backend.Info(ctx)
}

// EnsureImage implements execution.Backend.
func (m Mutant) EnsureImage(ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
	if m.ensureImage != nil {
		return m.ensureImage(ctx, ref, p, f)
	}
	return m.Backend.EnsureImage(ctx, ref, p, f)
}

// Create implements execution.Backend.
func (m Mutant) Create(ctx context.Context, s core.BoxSpec) (core.Box, error) {
	if m.create != nil {
		return m.create(ctx, s)
	}
	return m.Backend.Create(ctx, s)
}

// Dial implements execution.Backend.
func (m Mutant) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if m.dial != nil {
		return m.dial(ctx, box)
	}
	return m.Backend.Dial(ctx, box)
}

// List implements execution.Backend.
func (m Mutant) List(ctx context.Context, instance string) (core.Inventory, error) {
	if m.list != nil {
		return m.list(ctx, instance)
	}
	return m.Backend.List(ctx, instance)
}

// Destroy implements execution.Backend.
func (m Mutant) Destroy(ctx context.Context, box string) error {
	if m.destroy != nil {
		return m.destroy(ctx, box)
	}
	return m.Backend.Destroy(ctx, box)
}

// EnsureVolume implements execution.Backend.
func (m Mutant) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	if m.ensureVolume != nil {
		return m.ensureVolume(ctx, v)
	}
	return m.Backend.EnsureVolume(ctx, v)
}

// RemoveVolume implements execution.Backend.
func (m Mutant) RemoveVolume(ctx context.Context, name string) error {
	if m.removeVolume != nil {
		return m.removeVolume(ctx, name)
	}
	return m.Backend.RemoveVolume(ctx, name)
}

// All makes, for each check, a backend that breaks its sentence and no other.
func All() map[string]func(execution.Backend) Mutant {
	all := map[string]func(execution.Backend) Mutant{}
	for _, part := range []map[string]func(execution.Backend) Mutant{
		imageBreakers(), createBreakers(), looseBreakers(), dialBreakers(), listBreakers(), destroyBreakers(), volumeBreakers(), commonBreakers(),
	} {
		maps.Copy(all, part)
	}
	return all
}
