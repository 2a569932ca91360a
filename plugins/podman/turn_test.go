//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

// TestTurn: two processes, of which each has several that want the turn.
func TestTurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	var inside, most, done atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		turn := turn{file: file, mine: make(chan struct{}, 1)}
		for range 10 {
			all.Go(func() {
				leave, err := turn.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				most.Store(max(most.Load(), inside.Add(1)))
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				done.Add(1)
			})
		}
	}
	all.Wait()
	if most.Load() != 1 || done.Load() != 20 {
		t.Errorf("%d were inside at once, %d in all; want 1 and 20", most.Load(), done.Load())
	}
}

func TestTurnThatDoesNotCome(t *testing.T) {
	first := turn{file: filepath.Join(t.TempDir(), "lock"), mine: make(chan struct{}, 1)}
	leave, err := first.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := turn{file: first.file, mine: make(chan struct{}, 1)}
	for name, waiting := range map[string]turn{"in this process": first, "in another": second} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := waiting.take(ctx); core.KindOf(err) != core.ErrTimeout {
			t.Errorf("%s: got %v, want a timeout", name, err)
		}
		cancel()
	}
	leave()
	for _, next := range []turn{first, second} {
		leave, err := next.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	nowhere := turn{file: "/nowhere/lock", mine: make(chan struct{}, 1)}
	if leave, err = nowhere.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	leave()
}

// TestBoxesThatShareVolumes: made by several servers at once, they would have the service stand still for ever.
func TestBoxesThatShareVolumes(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var all sync.WaitGroup
		var volume core.Volume
		for server := range 3 {
			env := l.remoteEnv(t, l.backend(nil))
			spec := daemontest.Spec(env)
			if server == 0 {
				var err error
				if volume, err = env.Backend.EnsureVolume(t.Context(), core.Volume{Name: "boxwright-test-shared", Labels: spec.Labels}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.removeVolume(t, volume.Name) })
			}
			spec.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestEnvironments}}
			for range 6 {
				all.Go(func() {
					box, err := env.Backend.Create(t.Context(), spec)
					if err == nil {
						err = env.Backend.Destroy(t.Context(), box.ID)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
	})
}
