package gvisor

import (
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
		"*--platform=hang*) exec sleep 1000;;\n" +
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
		_, err := f.runsc(t.Context())
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
	if _, err := f.runsc(t.Context()); err != nil {
		t.Errorf("a platform that works: %v", err)
	}
}

// TestNoPlatformWorks: the hint names none.
func TestNoPlatformWorks(t *testing.T) {
	_, err := newFinder(Settings{Runsc: pickyRunsc(t, "none"), Platform: "kvm"}, "", "").runsc(t.Context())
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

// TestPlatformsOfThisMachine: what gVisor's own runsc says of the two that need no device.
func TestPlatformsOfThisMachine(t *testing.T) {
	path := findRunsc(t, "gvisor")
	for _, platform := range []string{"systrap", "ptrace"} {
		if err := tryPlatform(t.Context(), path, platform); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
	}
}
