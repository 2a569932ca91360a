package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestWordsAreBounded: what a program says in all its life takes no more room, and does it no harm.
func TestWordsAreBounded(t *testing.T) {
	w, err := newWords()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if w.file.WriteString("first\n"); w.text() != "first" {
		t.Errorf("it keeps %q", w.text())
	}
	for range 2 {
		_, err = w.file.Write(make([]byte, maxComplaint))
	}
	if info, _ := w.file.Stat(); !errors.Is(err, syscall.EPERM) || info.Size() != maxComplaint {
		t.Errorf("it grew to %d bytes, %v", info.Size(), err)
	}
}

// TestWhatTheTunnelSays: why there is no network is in the error, and the tunnel does not stay.
func TestWhatTheTunnelSays(t *testing.T) {
	l := newLab(t, "gvisor")
	script := "#!/bin/sh\necho 'no tun today' >&2\nexec >&- 3>&-\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(l.dir, "slirp4netns"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	m := thisMachine()
	m.getenv = func(string) string { return l.dir }
	err := l.backend(t, m).startTunnel(t.Context(), newID(), os.Getpid())
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "no tun today") || core.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestWhatTheStageSays: why a box's network could not be closed is said on stderr.
func TestWhatTheStageSays(t *testing.T) {
	cmd := exec.Command(buildPlugin(t, shortDir(t)))
	cmd.Args = []string{stageName, "/bin/true"}
	cmd.Env, cmd.Stdin = []string{barredVariable + "=not-a-network"}, strings.NewReader("\x01")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not-a-network") {
		t.Errorf("got %q, %v", out, err)
	}
}
