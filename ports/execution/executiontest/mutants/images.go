package mutants

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func imageBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"info": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, info: func(ctx context.Context) (core.Info, error) {
				info, err := b.Info(ctx)
				delete(info.Limits, core.LimitDisk)
				return info, err
			}}
		},
		"image/present": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			image, err := b.EnsureImage(ctx, ref, p, f)
			if ref == executiontest.FakeImage {
				image.Platform = ""
			}
			return image, err
		}),
		"image/not-fetched": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			if ref == executiontest.FakeRemoteImage && p == core.PullMissing {
				p = core.PullAlways
			}
			return b.EnsureImage(ctx, ref, p, f)
		}),
		"image/always": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			if p == core.PullAlways {
				p = core.PullMissing
			}
			return b.EnsureImage(ctx, ref, p, f)
		}),
		"image/never": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			image, err := b.EnsureImage(ctx, ref, p, f)
			if p == core.PullNever && core.KindOf(err) == core.ErrNotFound {
				err = core.Errorf(core.ErrDenied, "no")
			}
			return image, err
		}),
		"image/missing": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			image, err := b.EnsureImage(ctx, ref, p, f)
			if p == core.PullMissing && core.KindOf(err) == core.ErrNotFound {
				err = core.Errorf(core.ErrUnavailable, "no")
			}
			return image, err
		}),
		"image/malformed": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			image, err := b.EnsureImage(ctx, ref, p, f)
			if core.KindOf(err) == core.ErrInvalid {
				err = core.Errorf(core.ErrNotFound, "no")
			}
			return image, err
		}),
		"image/progress": onImage(func(b execution.Backend, ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
			image, err := b.EnsureImage(ctx, ref, p, f)
			if f != nil {
				go func() {
					for range 10 { // one of them comes while the check looks, however busy the machine is
						time.Sleep(20 * time.Millisecond)
						f(core.Progress{Phase: core.PhaseImage})
					}
				}()
			}
			return image, err
		}),
	}
}

func onImage(f func(execution.Backend, context.Context, string, core.PullPolicy, func(core.Progress)) (core.Image, error)) func(execution.Backend) Mutant {
	return func(b execution.Backend) Mutant {
		return Mutant{Backend: b, ensureImage: func(ctx context.Context, ref string, p core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
			return f(b, ctx, ref, p, progress)
		}}
	}
}
