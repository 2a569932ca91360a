package mutants

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func listBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"list/labels": onList(func(have *core.Inventory) {
			for i := range have.Boxes {
				have.Boxes[i].Labels.Tenant = strings.ReplaceAll(have.Boxes[i].Labels.Tenant, `"`, "")
			}
		}),
		"list/volumes": onList(func(have *core.Inventory) {
			for i := range have.Volumes {
				have.Volumes[i].Labels.Expires = time.Time{}
			}
		}),
		"list/instance": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
				return b.List(ctx, strings.TrimSuffix(instance, "-other"))
			}}
		},
		"list/stopped": onList(func(have *core.Inventory) {
			have.Boxes = slices.DeleteFunc(have.Boxes, func(b core.Box) bool { return b.State != core.BoxRunning })
		}),
	}
}

func onList(change func(*core.Inventory)) func(execution.Backend) Mutant {
	return func(b execution.Backend) Mutant {
		return Mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
			have, err := b.List(ctx, instance)
			change(&have)
			return have, err
		}}
	}
}

func destroyBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"destroy/unknown": onDestroy(func(b execution.Backend, ctx context.Context, box string) error {
			if box == "x" {
				return core.Errorf(core.ErrNotFound, "no")
			}
			return b.Destroy(ctx, box)
		}),
		"destroy/foreign": onDestroy(func(b execution.Backend, ctx context.Context, box string) error {
			if err := b.Destroy(ctx, box); core.KindOf(err) != core.ErrNotFound {
				return err
			}
			return nil
		}),
		"destroy/again": func(b execution.Backend) Mutant {
			var mu sync.Mutex
			gone := map[string]bool{}
			return onDestroy(func(b execution.Backend, ctx context.Context, box string) error {
				err := b.Destroy(ctx, box)
				mu.Lock()
				defer mu.Unlock()
				if gone[box] {
					return core.Errorf(core.ErrNotFound, "it is gone")
				}
				gone[box] = err == nil && len(box) == 26 // a real one
				return err
			})(b)
		},
		"destroy/volumes-stay": func(b execution.Backend) Mutant {
			var mu sync.Mutex
			mounted := map[string]string{}
			return Mutant{
				Backend: b,
				create: func(ctx context.Context, s core.BoxSpec) (core.Box, error) {
					box, err := b.Create(ctx, s)
					if err == nil && len(s.Mounts) > 0 && s.Mounts[0].Path == core.GuestCache {
						mu.Lock()
						defer mu.Unlock()
						mounted[box.ID] = s.Mounts[0].Volume
					}
					return box, err
				},
				destroy: func(ctx context.Context, box string) error {
					err := b.Destroy(ctx, box)
					mu.Lock()
					defer mu.Unlock()
					if v := mounted[box]; v != "" {
						return errors.Join(err, b.RemoveVolume(ctx, v))
					}
					return err
				},
			}
		},
	}
}

func onDestroy(f func(execution.Backend, context.Context, string) error) func(execution.Backend) Mutant {
	return func(b execution.Backend) Mutant {
		return Mutant{Backend: b, destroy: func(ctx context.Context, box string) error { return f(b, ctx, box) }}
	}
}

func volumeBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"volume/labels-stay": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, ensureVolume: func(ctx context.Context, v core.Volume) (core.Volume, error) {
				have, err := b.EnsureVolume(ctx, v)
				if err == nil {
					have.Labels = v.Labels
				}
				return have, err
			}}
		},
		"volume/name": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, ensureVolume: func(ctx context.Context, v core.Volume) (core.Volume, error) {
				if v.Name == "A" {
					v.Name = "a"
				}
				return b.EnsureVolume(ctx, v)
			}}
		},
		"volume/remove": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				have, err := b.EnsureVolume(ctx, core.Volume{Name: name})
				if core.KindOf(err) == "" && have.Labels.Instance == "" { // it was missing
					return errors.Join(b.RemoveVolume(ctx, name), core.Errorf(core.ErrNotFound, "no"))
				}
				return b.RemoveVolume(ctx, name)
			}}
		},
		"volume/in-use": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				err := b.RemoveVolume(ctx, name)
				if core.KindOf(err) == core.ErrUnavailable && core.HintOf(err) == "" {
					return nil
				}
				return err
			}}
		},
		"volume/foreign": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				err := b.RemoveVolume(ctx, name)
				if core.KindOf(err) == core.ErrNotFound {
					return nil
				}
				return err
			}}
		},
	}
}

func commonBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"common/together": func(b execution.Backend) Mutant {
			var mu sync.Mutex
			return onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
				mu.Lock()
				defer mu.Unlock()
				have, err := b.List(ctx, s.Labels.Instance)
				if err == nil && len(have.Boxes) > 1 {
					return core.Box{}, core.Errorf(core.ErrExhausted, "two at a time")
				}
				return b.Create(ctx, s)
			})(b)
		},
		"common/ctx": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
				return b.List(context.WithoutCancel(ctx), instance)
			}}
		},
		"common/unavailable": func(b execution.Backend) Mutant {
			return Mutant{Backend: b, info: func(ctx context.Context) (core.Info, error) {
				info, err := b.Info(ctx)
				if core.KindOf(err) == core.ErrUnavailable {
					err = core.Errorf(core.ErrUnavailable, "no hint")
				}
				return info, err
			}}
		},
	}
}

// Undying does nothing when a box is to be destroyed: more than one check notices.
func Undying(b execution.Backend) Mutant {
	return Mutant{Backend: b, destroy: func(context.Context, string) error { return nil }}
}
