//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/volumes"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// ownAgent gives the lab an agent whose volume is the test's own.
func (l *lab) ownAgent(t *testing.T) agentfile.File {
	t.Helper()
	l.agent = daemontest.OwnCopy(t, l.agent)
	a, err := agentfile.New(daemontest.Config(l.agent).Agents).Of("x", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.removeVolume(t, a.Name) })
	return a
}

// works makes a box, and asks its agent.
func works(t *testing.T, env executiontest.Env) {
	t.Helper()
	box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Backend.Destroy(context.WithoutCancel(t.Context()), box.ID)
	stream, err := env.Backend.Dial(t.Context(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := env.Hooks.Answers(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
}

func TestAgentVolumeThatVanishesIsFilledAgain(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		a := l.ownAgent(t)
		env := l.remoteEnv(t, l.backend(nil))
		for range 2 {
			works(t, env)
			if err := volumes.Remove(l.use(t.Context()), a.Name, nil); err != nil {
				t.Fatal(err)
			}
		}
		works(t, env)
		have, err := l.volume(t.Context(), a.Name)
		if _, ours := core.ParseLabels(have.Labels); err != nil || !ours {
			t.Errorf("the new volume is not labelled: %+v, %v", have, err)
		}
	})
}

// TestAgentVolumeThatIsIncompleteIsFilled: somebody died while he filled it.
func TestAgentVolumeThatIsIncompleteIsFilled(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		a := l.ownAgent(t)
		raw, err := os.ReadFile(a.Path)
		if err != nil {
			t.Fatal(err)
		}
		half := a
		half.Path, half.Size = filepath.Join(t.TempDir(), "half"), int64(len(raw)/2)
		if err := os.WriteFile(half.Path, raw[:len(raw)/2], 0o755); err != nil {
			t.Fatal(err)
		}
		env := l.remoteEnv(t, l.backend(nil))
		labels := core.Labels{Instance: env.Instance}
		image, err := l.inspectRef(t.Context(), testImage)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.refill(t.Context(), origin{id: image.ID, agent: half}, labels); err != nil {
			t.Fatal(err)
		}
		works(t, env)
	})
}

func TestSeveralServersFillOneVolume(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		l.ownAgent(t)
		const servers = 3
		done := make(chan error, servers)
		for range servers {
			env := l.remoteEnv(t, l.backend(nil))
			go func() {
				box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
				if err == nil {
					err = env.Backend.Destroy(t.Context(), box.ID)
				}
				done <- err
			}()
		}
		for range servers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAgentsOfOlderBuildsGo: their volumes would pile up.
func TestAgentsOfOlderBuildsGo(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		older := l.ownAgent(t)
		env := l.remoteEnv(t, l.backend(nil))
		works(t, env)
		l.ownAgent(t)
		newer := l.remoteEnv(t, l.backend(nil))
		newer.Instance = env.Instance
		works(t, newer)
		if _, err := l.volume(t.Context(), older.Name); !isNotFound(err) {
			t.Errorf("volume %s is left (%v)", older.Name, err)
		}
	})
}

// TestForeignContainersAreLeftAlone: one that somebody else made is no box, and is not reached.
func TestForeignContainersAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		b := l.backend(nil)
		f, err := l.foreignBox(t.Context(), t)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Dial(t.Context(), f.ID); core.KindOf(err) != core.ErrNotFound {
			t.Errorf("dial: %v", err)
		}
		if exists, err := containers.Exists(l.use(t.Context()), f.ID, nil); err != nil || !exists {
			t.Errorf("it is gone: %v", err)
		}
	})
}
