package executiontest_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// mutant is a backend that does some methods in a way of its own.
type mutant struct {
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

func (m mutant) Info(ctx context.Context) (core.Info, error) {
	if m.info != nil {
		return m.info(ctx)
	}
	return m.Backend.Info(ctx)
}

func (m mutant) EnsureImage(ctx context.Context, ref string, p core.PullPolicy, f func(core.Progress)) (core.Image, error) {
	if m.ensureImage != nil {
		return m.ensureImage(ctx, ref, p, f)
	}
	return m.Backend.EnsureImage(ctx, ref, p, f)
}

func (m mutant) Create(ctx context.Context, s core.BoxSpec) (core.Box, error) {
	if m.create != nil {
		return m.create(ctx, s)
	}
	return m.Backend.Create(ctx, s)
}

func (m mutant) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if m.dial != nil {
		return m.dial(ctx, box)
	}
	return m.Backend.Dial(ctx, box)
}

func (m mutant) List(ctx context.Context, instance string) (core.Inventory, error) {
	if m.list != nil {
		return m.list(ctx, instance)
	}
	return m.Backend.List(ctx, instance)
}

func (m mutant) Destroy(ctx context.Context, box string) error {
	if m.destroy != nil {
		return m.destroy(ctx, box)
	}
	return m.Backend.Destroy(ctx, box)
}

func (m mutant) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	if m.ensureVolume != nil {
		return m.ensureVolume(ctx, v)
	}
	return m.Backend.EnsureVolume(ctx, v)
}

func (m mutant) RemoveVolume(ctx context.Context, name string) error {
	if m.removeVolume != nil {
		return m.removeVolume(ctx, name)
	}
	return m.Backend.RemoveVolume(ctx, name)
}

// breakers make, for each check, a backend that breaks its sentence and no other.
func breakers() map[string]func(execution.Backend) mutant {
	all := map[string]func(execution.Backend) mutant{}
	for _, part := range []map[string]func(execution.Backend) mutant{
		imageBreakers(), createBreakers(), dialBreakers(), listBreakers(), destroyBreakers(), volumeBreakers(), commonBreakers(),
	} {
		maps.Copy(all, part)
	}
	return all
}

func imageBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
		"info": func(b execution.Backend) mutant {
			return mutant{Backend: b, info: func(ctx context.Context) (core.Info, error) {
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
			if f != nil {
				go func() {
					time.Sleep(50 * time.Millisecond)
					f(core.Progress{Phase: core.PhaseImage})
				}()
			}
			return b.EnsureImage(ctx, ref, p, f)
		}),
	}
}

func onImage(f func(execution.Backend, context.Context, string, core.PullPolicy, func(core.Progress)) (core.Image, error)) func(execution.Backend) mutant {
	return func(b execution.Backend) mutant {
		return mutant{Backend: b, ensureImage: func(ctx context.Context, ref string, p core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
			return f(b, ctx, ref, p, progress)
		}}
	}
}

func createBreakers() map[string]func(execution.Backend) mutant {
	kindInstead := func(want func(core.BoxSpec, error) bool) func(execution.Backend) mutant {
		return onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
			box, err := b.Create(ctx, s)
			if err != nil && want(s, err) {
				err = core.Errorf(core.ErrInternal, "no: %s", err)
			}
			return box, err
		})
	}
	return map[string]func(execution.Backend) mutant{
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

func onCreate(f func(execution.Backend, context.Context, core.BoxSpec) (core.Box, error)) func(execution.Backend) mutant {
	return func(b execution.Backend) mutant {
		return mutant{Backend: b, create: func(ctx context.Context, s core.BoxSpec) (core.Box, error) { return f(b, ctx, s) }}
	}
}

func dialBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
		"dial/unknown": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			if box == "" {
				return nil, core.Errorf(core.ErrInvalid, "no box was named")
			}
			return b.Dial(ctx, box)
		}),
		"dial/stopped": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if core.KindOf(err) == core.ErrUnavailable && core.HintOf(err) == "" {
				err = core.Errorf(core.ErrNotFound, "no")
			}
			return s, err
		}),
		"dial/ctx": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err == nil {
				context.AfterFunc(ctx, func() { s.Close() })
			}
			return s, err
		}),
		"dial/again":    refusesAfter(2, true),
		"dial/together": refusesAfter(2, false),
		"dial/close": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err != nil {
				return nil, err
			}
			return neverCloses{s}, nil
		}),
		"dial/box-gone": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err != nil {
				return nil, err
			}
			return &waitsForClose{ReadWriteCloser: s, closed: make(chan struct{})}, nil
		}),
	}
}

func onDial(f func(execution.Backend, context.Context, string) (io.ReadWriteCloser, error)) func(execution.Backend) mutant {
	return func(b execution.Backend) mutant {
		return mutant{Backend: b, dial: func(ctx context.Context, box string) (io.ReadWriteCloser, error) { return f(b, ctx, box) }}
	}
}

// refusesAfter refuses a box's next stream once enough are open, or were closed.
func refusesAfter(most int, closed bool) func(execution.Backend) mutant {
	var mu sync.Mutex
	count := map[string]int{}
	add := func(box string, n int) {
		mu.Lock()
		defer mu.Unlock()
		count[box] += n
	}
	return onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
		opened, ended := 1, -1
		if closed {
			opened, ended = 0, 1
		}
		mu.Lock()
		refused := count[box] >= most
		count[box] += opened
		mu.Unlock()
		if refused {
			return nil, core.Errorf(core.ErrExhausted, "too many")
		}
		s, err := b.Dial(ctx, box)
		if err != nil {
			return nil, err
		}
		return onClose{s, func() { add(box, ended) }}, nil
	})
}

type onClose struct {
	io.ReadWriteCloser
	f func()
}

func (s onClose) Close() error {
	s.f()
	return s.ReadWriteCloser.Close()
}

type neverCloses struct{ io.ReadWriteCloser }

func (neverCloses) Close() error { return nil }

// waitsForClose hides the far end's end from who never wrote: Stop needs to notice it.
type waitsForClose struct {
	io.ReadWriteCloser
	wrote  atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (s *waitsForClose) Write(p []byte) (int, error) {
	s.wrote.Store(true)
	return s.ReadWriteCloser.Write(p)
}

func (s *waitsForClose) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if n == 0 && err != nil && !s.wrote.Load() {
		<-s.closed
	}
	return n, err
}

func (s *waitsForClose) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.ReadWriteCloser.Close()
}

func listBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
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
		"list/instance": func(b execution.Backend) mutant {
			return mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
				return b.List(ctx, strings.TrimSuffix(instance, "-other"))
			}}
		},
		"list/stopped": onList(func(have *core.Inventory) {
			have.Boxes = slices.DeleteFunc(have.Boxes, func(b core.Box) bool { return b.State != core.BoxRunning })
		}),
	}
}

func onList(change func(*core.Inventory)) func(execution.Backend) mutant {
	return func(b execution.Backend) mutant {
		return mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
			have, err := b.List(ctx, instance)
			change(&have)
			return have, err
		}}
	}
}

func destroyBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
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
		"destroy/again": func(b execution.Backend) mutant {
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
		"destroy/volumes-stay": func(b execution.Backend) mutant {
			var mu sync.Mutex
			mounted := map[string]string{}
			return mutant{
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

func onDestroy(f func(execution.Backend, context.Context, string) error) func(execution.Backend) mutant {
	return func(b execution.Backend) mutant {
		return mutant{Backend: b, destroy: func(ctx context.Context, box string) error { return f(b, ctx, box) }}
	}
}

func volumeBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
		"volume/labels-stay": func(b execution.Backend) mutant {
			return mutant{Backend: b, ensureVolume: func(ctx context.Context, v core.Volume) (core.Volume, error) {
				have, err := b.EnsureVolume(ctx, v)
				if err == nil {
					have.Labels = v.Labels
				}
				return have, err
			}}
		},
		"volume/name": func(b execution.Backend) mutant {
			return mutant{Backend: b, ensureVolume: func(ctx context.Context, v core.Volume) (core.Volume, error) {
				if v.Name == "A" {
					v.Name = "a"
				}
				return b.EnsureVolume(ctx, v)
			}}
		},
		"volume/remove": func(b execution.Backend) mutant {
			return mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				have, err := b.EnsureVolume(ctx, core.Volume{Name: name})
				if core.KindOf(err) == "" && have.Labels.Instance == "" { // it was missing
					return errors.Join(b.RemoveVolume(ctx, name), core.Errorf(core.ErrNotFound, "no"))
				}
				return b.RemoveVolume(ctx, name)
			}}
		},
		"volume/in-use": func(b execution.Backend) mutant {
			return mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				err := b.RemoveVolume(ctx, name)
				if core.KindOf(err) == core.ErrUnavailable && core.HintOf(err) == "" {
					return nil
				}
				return err
			}}
		},
		"volume/foreign": func(b execution.Backend) mutant {
			return mutant{Backend: b, removeVolume: func(ctx context.Context, name string) error {
				err := b.RemoveVolume(ctx, name)
				if core.KindOf(err) == core.ErrNotFound {
					return nil
				}
				return err
			}}
		},
	}
}

func commonBreakers() map[string]func(execution.Backend) mutant {
	return map[string]func(execution.Backend) mutant{
		"common/together": func(b execution.Backend) mutant {
			var mu sync.Mutex
			return onCreate(func(b execution.Backend, ctx context.Context, s core.BoxSpec) (core.Box, error) {
				mu.Lock()
				defer mu.Unlock()
				have, err := b.List(ctx, s.Labels.Instance)
				if err == nil && len(have.Boxes) > 0 {
					return core.Box{}, core.Errorf(core.ErrExhausted, "one at a time")
				}
				return b.Create(ctx, s)
			})(b)
		},
		"common/ctx": func(b execution.Backend) mutant {
			return mutant{Backend: b, list: func(ctx context.Context, instance string) (core.Inventory, error) {
				return b.List(context.WithoutCancel(ctx), instance)
			}}
		},
		"common/unavailable": func(b execution.Backend) mutant {
			return mutant{Backend: b, info: func(ctx context.Context) (core.Info, error) {
				info, err := b.Info(ctx)
				if core.KindOf(err) == core.ErrUnavailable {
					err = core.Errorf(core.ErrUnavailable, "no hint")
				}
				return info, err
			}}
		},
	}
}

// notAlone lists checks that no backend can fail without failing another one, or whose mutant
// is a change of what is inside a box: their teeth are shown in TestInsideTeeth.
func notAlone() []string {
	return []string{"create/inside", "create/network", "create/mounts", "destroy/gone", "destroy/stopped"}
}

func TestEachMutantFailsExactlyItsCheck(t *testing.T) {
	mutants := breakers()
	for _, c := range executiontest.Checks() {
		if mutants[c.Name] == nil && !slices.Contains(notAlone(), c.Name) {
			t.Errorf("no mutant breaks %s: %s", c.Name, c.Clause)
		}
	}
	for name, breaker := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed := failures(t, breaker); !slices.Equal(failed, []string{name}) {
				t.Errorf("it failed %q", failed)
			}
		})
	}
}

// failures runs all checks, and names those that a backend fails.
func failures(t *testing.T, breaker func(execution.Backend) mutant) []string {
	t.Helper()
	return failuresIn(t, func() executiontest.Env {
		return executiontest.FakeEnv(executiontest.NewFake(), func(b execution.Backend) execution.Backend { return breaker(b) })
	})
}

func failuresIn(t *testing.T, newEnv func() executiontest.Env) []string {
	t.Helper()
	var mu sync.Mutex
	var failed []string
	var all sync.WaitGroup
	for _, c := range executiontest.Checks() {
		all.Go(func() {
			env := newEnv()
			env.Patience = time.Second
			err := c.Run(t.Context(), env)
			if executiontest.Skipped(err) {
				t.Errorf("%s: %v", c.Name, err)
			} else if err != nil {
				t.Logf("%s: %v", c.Name, err)
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, c.Name)
			}
		})
	}
	all.Wait()
	slices.Sort(failed)
	return failed
}

// TestInsideTeeth lies about what a box looks like from inside.
func TestInsideTeeth(t *testing.T) {
	type lie func(*executiontest.Inside)
	for want, lies := range map[string][]lie{
		"create/inside": {
			func(in *executiontest.Inside) { in.PID = 7 },
			func(in *executiontest.Inside) { in.UID = 0 },
			func(in *executiontest.Inside) { in.Caps = "00000000a80425fb" },
			func(in *executiontest.Inside) { in.NoNewPrivs = false },
			func(in *executiontest.Inside) { in.RootMounted = "rw" },
			func(in *executiontest.Inside) { in.Writable[core.GuestHome] = false },
			func(in *executiontest.Inside) { in.Writable["/etc"] = true },
		},
		"create/network": {func(in *executiontest.Inside) { in.Interfaces = []string{"lo", "eth0"} }},
		"create/mounts": {
			func(in *executiontest.Inside) { in.Writable[core.GuestEnvironment] = true },
			func(in *executiontest.Inside) { in.Seen[core.GuestEnvironment] = false },
		},
	} {
		for i, change := range lies {
			failed := failuresIn(t, func() executiontest.Env {
				env := executiontest.FakeEnv(executiontest.NewFake(), itself)
				honest := env.Hooks.Inside
				env.Hooks.Inside = func(ctx context.Context, s io.ReadWriteCloser, folders []string) (executiontest.Inside, error) {
					in, err := honest(ctx, s, folders)
					if err == nil {
						change(&in)
					}
					return in, err
				}
				return env
			})
			if !slices.Equal(failed, []string{want}) {
				t.Errorf("%s, lie %d: it failed %q", want, i, failed)
			}
		}
	}
}

// TestDestroyTeeth shows that a Destroy that does nothing is noticed: more than one check does.
func TestDestroyTeeth(t *testing.T) {
	failed := failures(t, onDestroy(func(execution.Backend, context.Context, string) error { return nil }))
	for _, name := range []string{"destroy/gone", "destroy/stopped"} {
		if !slices.Contains(failed, name) {
			t.Errorf("%s did not notice it", name)
		}
	}
}
