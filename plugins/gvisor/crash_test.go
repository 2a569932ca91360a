package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// killPlugin kills the executable without a word, and returns when it is gone.
func killPlugin(t *testing.T, executable string) {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if exe, err := os.Readlink(filepath.Join(dir, "exe")); err != nil || exe != executable {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		syscall.Kill(pid, syscall.SIGKILL)
		for {
			if exe, err := os.Readlink(filepath.Join(dir, "exe")); err != nil || exe != executable {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	t.Fatal("there is no plugin to kill")
}

// users are those that plugins run as: root, and an ordinary one.
func users(t *testing.T, f func(t *testing.T, l *lab, as *syscall.Credential)) {
	t.Run("root", func(t *testing.T) { f(t, newLab(t, "gvisor"), nil) })
	t.Run("ordinary", func(t *testing.T) {
		l, as := newUserLab(t)
		f(t, l, as)
	})
}

func TestBoxesOutliveThePlugin(t *testing.T) {
	users(t, func(t *testing.T, l *lab, as *syscall.Credential) {
		plugin := buildPlugin(t, l.dir)
		first := l.spawn(t, plugin, as)
		env := l.remoteEnv(t, first)
		spec := daemontest.Spec(env)
		spec.Network = network(t)
		box, err := first.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		killPlugin(t, plugin)
		env.Backend = l.spawn(t, plugin, as)
		have, err := env.Backend.List(t.Context(), env.Instance)
		if err != nil || len(have.Boxes) != 1 || have.Boxes[0].ID != box.ID || have.Boxes[0].State != core.BoxRunning || have.Boxes[0].Labels != spec.Labels {
			t.Fatalf("got %+v, %v", have, err)
		}
		stream, err := env.Backend.Dial(t.Context(), box.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if err := env.Hooks.Answers(t.Context(), stream); err != nil {
			t.Error(err)
		}
		if err := env.Backend.Destroy(t.Context(), box.ID); err != nil {
			t.Error(err)
		}
		l.isEmpty(t, box.ID)
	})
}

// network is one that boxes here can have.
func network(t *testing.T) core.Network {
	t.Helper()
	b := storeBackend(t)
	if b.tunnel() == "" {
		return core.NetworkNone
	}
	return core.NetworkFull
}

// isEmpty reports what boxes have left, and those boxes' processes and control groups, of either
// version.
func (l *lab) isEmpty(t *testing.T, boxes ...string) {
	t.Helper()
	for _, dir := range []string{"boxes", "runsc"} {
		if left, _ := os.ReadDir(filepath.Join(l.settings.Dir, dir)); len(left) > 0 {
			t.Errorf("%s still has %v", dir, left)
		}
	}
	for _, box := range boxes {
		for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
			if groups, _ := filepath.Glob(pattern + cgroupParent + "/" + box); len(groups) > 0 {
				t.Errorf("%v are left", groups)
			}
		}
		for _, p := range processesIn(box) {
			t.Errorf("process %d of a removed box lives", p.pid)
		}
	}
}

// TestPluginKilledWhileItMakesABox: what is left is listed and can be removed, whenever the plugin
// died.
func TestPluginKilledWhileItMakesABox(t *testing.T) {
	users(t, func(t *testing.T, l *lab, as *syscall.Credential) {
		plugin := buildPlugin(t, l.dir)
		for _, network := range slices.Compact([]core.Network{core.NetworkNone, network(t)}) {
			t.Run("network-"+string(network), func(t *testing.T) {
				for _, after := range []time.Duration{0, 3 * time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond} {
					l.killDuringCreate(t, plugin, as, network, after)
				}
			})
		}
	})
}

// killDuringCreate kills a plugin some time after it was told to make a box; the next one removes
// what there is, and what was not yet a box when it makes its next.
func (l *lab) killDuringCreate(t *testing.T, plugin string, as *syscall.Credential, network core.Network, after time.Duration) {
	t.Helper()
	client := l.spawn(t, plugin, as)
	env := l.remoteEnv(t, client)
	if _, err := client.EnsureImage(t.Context(), testImage, core.PullNever, nil); err != nil {
		t.Fatal(err)
	}
	spec := daemontest.Spec(env)
	spec.Network = network
	made := make(chan struct{})
	go func() {
		defer close(made)
		client.Create(t.Context(), spec)
	}()
	time.Sleep(after)
	killPlugin(t, plugin)
	<-made
	env.Backend = l.spawn(t, plugin, as)
	removed := cleanUp(t, env)
	if _, err := env.Backend.Create(t.Context(), daemontest.Spec(env)); err != nil {
		t.Fatal(err)
	}
	l.isEmpty(t, append(removed, cleanUp(t, env)...)...)
	killPlugin(t, plugin)
}

// cleanUp removes what is listed until nothing is, as a server does, and returns what it removed.
// What was on its way when its plugin died may still come.
func cleanUp(t *testing.T, env executiontest.Env) (removed []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for quiet := 0; quiet < 3; quiet++ {
		have, err := env.Backend.List(ctx, env.Instance)
		if err != nil {
			t.Fatal(err)
		}
		for _, box := range have.Boxes {
			quiet = 0
			if err := env.Backend.Destroy(ctx, box.ID); err != nil {
				t.Fatal(err)
			}
			removed = append(removed, box.ID)
		}
	}
	return removed
}

// TestAStoppedKernelIsRemoved: a box whose kernel does not answer any more.
func TestAStoppedKernelIsRemoved(t *testing.T) {
	l := newLab(t, "gvisor")
	env := l.remoteEnv(t, l.backend(t, thisMachine()))
	box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processesIn(box.ID) {
		syscall.Kill(p.pid, syscall.SIGSTOP)
	}
	if err := env.Backend.Destroy(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	l.isEmpty(t, box.ID)
}

// TestTwoPluginsShareAFolder: each sees and ends the other's boxes, and neither breaks what the
// other makes.
func TestTwoPluginsShareAFolder(t *testing.T) {
	l := newLab(t, "gvisor")
	plugin := buildPlugin(t, l.dir)
	one, other := l.spawn(t, plugin, nil), l.spawn(t, plugin, nil)
	env := l.remoteEnv(t, one)
	type result struct {
		box string
		err error
	}
	results := make(chan result, 4)
	for _, client := range []*sdk.Client{one, other, one, other} {
		go func() {
			box, err := client.Create(t.Context(), daemontest.Spec(env))
			if err == nil {
				err = other.Destroy(t.Context(), box.ID)
			}
			results <- result{box.ID, err}
		}()
	}
	var removed []string
	for range cap(results) {
		r := <-results
		if removed = append(removed, r.box); r.err != nil {
			t.Error(r.err)
		}
	}
	volume := core.Volume{Name: "shared", Labels: core.Labels{Instance: env.Instance}}
	if _, err := one.EnsureVolume(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	spec := daemontest.Spec(env)
	spec.Mounts = []core.Mount{{Volume: "shared", Path: core.GuestCache, Writable: true}}
	box, err := one.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.RemoveVolume(t.Context(), "shared"); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("removing what the other's box uses: %v", err)
	}
	if err := other.Destroy(t.Context(), box.ID); err != nil {
		t.Error(err)
	}
	l.isEmpty(t, append(removed, box.ID)...)
}
