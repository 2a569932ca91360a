package docker

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/volume"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// ownAgent makes the stand-in differ from everybody else's, so that its volume is the test's.
func (l *lab) ownAgent(t *testing.T) agentfile.File {
	t.Helper()
	l.agent = daemontest.OwnCopy(t, l.agent)
	a, err := agentfile.New(daemontest.Config(l.agent).Agents).Of("x", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.api.VolumeRemove(context.WithoutCancel(t.Context()), a.Name, true) })
	return a
}

// works makes a box, and asks its agent.
func works(t *testing.T, env executiontest.Env) {
	t.Helper()
	box, err := env.Backend.Create(t.Context(), specOf(env))
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

func specOf(env executiontest.Env) core.BoxSpec {
	return core.BoxSpec{Image: env.Image, Limits: core.DefaultLimits(), Labels: core.Labels{Instance: env.Instance}}
}

func TestAgentVolumeThatVanishesIsFilledAgain(t *testing.T) {
	lab := newLab(t)
	a := lab.ownAgent(t)
	env := lab.remoteEnv(t, lab.backend(nil))
	for range 2 {
		works(t, env)
		if err := lab.api.VolumeRemove(t.Context(), a.Name, true); err != nil {
			t.Fatal(err)
		}
	}
	works(t, env)
	have, err := lab.api.VolumeInspect(t.Context(), a.Name)
	if _, ours := core.ParseLabels(have.Labels); err != nil || !ours {
		t.Errorf("the new volume is not labelled: %+v, %v", have, err)
	}
}

// TestAgentVolumeThatIsIncompleteIsFilled: somebody died while he filled it.
func TestAgentVolumeThatIsIncompleteIsFilled(t *testing.T) {
	lab := newLab(t)
	a := lab.ownAgent(t)
	if _, err := lab.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: a.Name, Labels: core.Labels{Instance: "x"}.Map()}); err != nil {
		t.Fatal(err)
	}
	half := a
	half.Path = filepath.Join(t.TempDir(), "half")
	raw, _ := os.ReadFile(a.Path)
	os.WriteFile(half.Path, raw[:len(raw)/2], 0o755)
	b := lab.backend(nil)
	e, err := b.finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env := lab.remoteEnv(t, b)
	if err := e.fill(t.Context(), origin{id: testImage, agent: half}, specOf(env), "s"); err != nil {
		t.Fatal(err)
	}
	works(t, env)
}

func TestSeveralServersFillOneVolume(t *testing.T) {
	lab := newLab(t)
	lab.ownAgent(t)
	done := make(chan struct{})
	for range 3 {
		env := lab.remoteEnv(t, lab.backend(nil))
		go func() {
			defer func() { done <- struct{}{} }()
			box, err := env.Backend.Create(t.Context(), specOf(env))
			if err != nil {
				t.Error(err)
				return
			}
			if err := env.Backend.Destroy(t.Context(), box.ID); err != nil {
				t.Error(err)
			}
		}()
	}
	for range 3 {
		<-done
	}
}

func TestImageOfAnotherArchitecture(t *testing.T) {
	lab := newLab(t)
	r := daemontest.NewRegistry(t)
	ref := r.Host + "/foreign:1"
	r.Push(t, ref, "s390x")
	lab.removeImage(t, ref)
	b := lab.backend(nil)
	env := lab.remoteEnv(t, b)
	env.Image = ref
	if _, err := b.EnsureImage(t.Context(), ref, core.PullMissing, nil); err != nil {
		if core.KindOf(err) == core.ErrUnsupported { // the engine looks at the platform itself
			return
		}
		t.Fatal(err)
	}
	_, err := b.Create(t.Context(), specOf(env))
	isUnsupported(t, err, ref, "s390x", runtime.GOARCH)
	b.agents = agentfile.New(map[string]string{"s390x": textAgent(t), runtime.GOARCH: lab.agent})
	_, err = b.Create(t.Context(), specOf(env))
	isUnsupported(t, err, ref, "s390x", "linux/"+runtime.GOARCH)
	have, err := b.List(t.Context(), env.Instance)
	if err != nil || len(have.Boxes) > 0 {
		t.Errorf("%+v is left, %v", have.Boxes, err)
	}
	if err := executiontest.Sweep(t.Context(), env); err != nil {
		t.Error(err)
	}
}

func isUnsupported(t *testing.T, err error, names ...string) {
	t.Helper()
	if core.KindOf(err) != core.ErrUnsupported {
		t.Fatalf("got %v", err)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("it does not name %s: %v", name, err)
		}
	}
}

// textAgent is a file that no machine runs.
func textAgent(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "agent")
	os.WriteFile(path, []byte("for another machine "+executiontest.NewInstance()), 0o755)
	return path
}
