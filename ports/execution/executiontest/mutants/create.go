package mutants

import (
	"context"
	"errors"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func createBreakers() map[string]func(execution.Backend) Mutant {
	kindInstead := func(want func(core.BoxSpec, error) bool) func(execution.Backend) Mutant {
		return onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			if err != nil && want(s, err) {
				err = core.Errorf(core.ErrInternal, "no: %s", err)
			}
			return box, err
		})
	}
	return map[string]func(execution.Backend) Mutant{
		"create/answers": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			box.State = ""
			return box, err
		}),
		"create/missing-image": kindInstead(func(s core.BoxSpec, _ error) bool { return strings.Contains(s.Image, "not-there") }),
		"create/digest": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			if len(s.Digest) == len("sha256:")+64 && !strings.Contains(s.Image, "not-there") {
				s.Digest = "" // the name is all that counts
			}
			return b.Create(ctx, s)
		}),
		"create/missing-volume": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			for _, m := range s.Mounts { // as Docker does by itself
				if len(m.Volume) > 30 {
					if _, err := b.EnsureVolume(ctx, core.Volume{Name: m.Volume, Labels: s.Labels}); err != nil {
						return core.Box{}, err
					}
				}
			}
			return b.Create(ctx, s)
		}),
		"create/bad-limits": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			s.Limits = s.Limits.WithDefaults(core.DefaultLimits())
			return b.Create(ctx, s)
		}),
		"create/bad-spec": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			if s.Network != core.NetworkFull {
				s.Network = core.NetworkNone
			}
			return b.Create(ctx, s)
		}),
	}
}

// looseBreakers make boxes that they should not, or leave them.
func looseBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"create/unenforced-refuse": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			s.Unenforced = core.UnenforcedWarn
			return b.Create(ctx, s)
		}),
		"create/unenforced-warn": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			box.Warnings = nil
			return box, err
		}),
		"create/all-or-nothing": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			if core.KindOf(err) == core.ErrInternal { // the last step fails, and nothing is undone
				if _, again := b.Create(ctx, s); again != nil {
					return box, again
				}
			}
			return box, err
		}),
		"create/cancelled": onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			if core.KindOf(err) == core.ErrTimeout {
				_, late := b.Create(context.WithoutCancel(ctx), s)
				return box, errors.Join(err, late)
			}
			return box, err
		}),
	}
}

func onCreate(f func(execution.Backend, context.Context, core.BoxSpec) (core.Box, error)) func(execution.Backend) Mutant {
	return func(b execution.Backend) Mutant {
		return Mutant{Backend: b, create: func(ctx context.Context, s core.BoxSpec) (core.Box, error) { return f(b, ctx, s) }}
	}
}
