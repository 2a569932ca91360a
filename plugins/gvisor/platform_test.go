package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// pickyRunsc is a runsc with which only some platforms work; with kvm, it waits without an end.
func pickyRunsc(t *testing.T, works string) string {
	t.Helper()
	path := fakeRunsc(t, t.TempDir(), goodFlags, "1")
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picky := "#!/bin/sh\ncase \"$*\" in\n" +
		"*--platform=kvm*) echo tried >>" + filepath.Join(filepath.Dir(path), "tries") + "; echo 'setting up' >&2; echo 'no /dev/kvm here' >&2; exit 1;;\n" +
		"*--platform=hang*) sleep 1000 & echo $! >" + filepath.Join(filepath.Dir(path), "child") + "; wait;;\n" +
		"*--platform=" + works + "*) exit 0;;\n*--platform=*) exit 1;;\nesac\n"
	if err := os.WriteFile(path, append([]byte(picky), script...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAPlatformThatDoesNotWork is refused before any box, with what works instead, and is not tried at each call.
func TestAPlatformThatDoesNotWork(t *testing.T) {
	path := pickyRunsc(t, "systrap")
	f := newFinder(Settings{Runsc: path, Platform: "kvm"}, "", "")
	for range 2 {
		_, err := f.working(t.Context())
		if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "kvm does not work on this machine: no /dev/kvm here (") {
			t.Errorf("got %v", err)
		}
		if hint := core.HintOf(err); hint != "set backends.gvisor.settings.platform to systrap, or leave it out" {
			t.Errorf("the hint is %q", hint)
		}
	}
	if tries, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "tries")); string(tries) != "tried\n" {
		t.Errorf("it was tried %q", tries)
	}
	f.rest = time.Time{}
	f.settings.Platform = "systrap"
	if _, err := f.working(t.Context()); err != nil {
		t.Errorf("a platform that works: %v", err)
	}
}

// TestNoPlatformWorks: the hint names none.
func TestNoPlatformWorks(t *testing.T) {
	_, err := newFinder(Settings{Runsc: pickyRunsc(t, "none"), Platform: "kvm"}, "", "").working(t.Context())
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(core.HintOf(err), "another backend") {
		t.Errorf("got %v; %s", err, core.HintOf(err))
	}
}

// TestAPlatformThatHangs is given up.
func TestAPlatformThatHangs(t *testing.T) {
	const most = 50 * time.Millisecond
	err := trial(t.Context(), pickyRunsc(t, "systrap"), "hang", most)
	if err == nil || err.Error() != "a box did not start within 50ms" {
		t.Errorf("got %v", err)
	}
}

// TestATrialThatIsGivenUp leaves nothing that it has started.
func TestATrialThatIsGivenUp(t *testing.T) {
	path := pickyRunsc(t, "systrap")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- trial(ctx, path, "hang", time.Hour) }()
	child := awaitFile(t, filepath.Join(filepath.Dir(path), "child"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		line, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
		if err != nil || !strings.Contains(string(line), "sleep") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is left", child)
		}
	}
}

// awaitFile returns the line in a file, once it is there.
func awaitFile(t *testing.T, file string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if line, err := os.ReadFile(file); err == nil && strings.HasSuffix(string(line), "\n") {
			return strings.TrimSpace(string(line))
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s", file)
		}
	}
}

// TestARefusalOutlivesItsCaller, who does not wait until it is known which platforms work: the next is told at once.
func TestARefusalOutlivesItsCaller(t *testing.T) {
	path := pickyRunsc(t, "none")
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	slow := strings.Replace(string(script), "*--platform=none*) exit 0", "*--platform=systrap*) echo begun >"+path+".begun; exec sleep 1000", 1)
	if err := os.WriteFile(path, []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	f := newFinder(Settings{Runsc: path, Platform: "kvm"}, "", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(path + ".begun"); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := f.working(ctx); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(core.HintOf(err), "settings.platform") {
			t.Errorf("got %v (%s)", err, core.HintOf(err))
		}
	}
	if tries, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "tries")); string(tries) != "tried\n" {
		t.Errorf("it was tried %q", tries)
	}
}

// TestWhatNeedsNoPlatform: boxes and volumes are listed and removed although the platform does not work, or hangs.
func TestWhatNeedsNoPlatform(t *testing.T) {
	b := storeBackend(t)
	b.finder = newFinder(Settings{Runsc: pickyRunsc(t, "none"), Platform: "hang"}, "", "")
	b.finder.trials <- struct{}{} // somebody tries
	id := newID()
	labels := core.Labels{Instance: "i", Purpose: core.PurposeRun}
	err := b.writeRecord(id, record{Labels: labels.Map(), Digest: "d"})
	if err == nil {
		err = b.makeVolume(core.Volume{Name: "v", Labels: labels})
	}
	if err != nil {
		t.Fatal(err)
	}
	have, err := b.List(t.Context(), "i")
	if err != nil || len(have.Boxes) != 1 || len(have.Volumes) != 1 {
		t.Errorf("there is %+v, %v", have, err)
	}
	if err := errors.Join(b.Destroy(t.Context(), id), b.RemoveVolume(t.Context(), "v")); err != nil {
		t.Error(err)
	}
	if have, err := b.List(t.Context(), "i"); err != nil || len(have.Boxes)+len(have.Volumes) > 0 {
		t.Errorf("left are %+v, %v", have, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Info(ctx); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("what the backend is, although it is not known whether the platform works: %v", err)
	}
}

// TestPlatformsOfThisMachine: what gVisor's own runsc says of the two that need no device.
func TestPlatformsOfThisMachine(t *testing.T) {
	path := findRunsc(t, "gvisor")
	for _, platform := range []string{"systrap", "ptrace"} {
		if err := tryPlatform(t.Context(), path, platform); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
	}
}
