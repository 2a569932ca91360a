package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The images that hack/ makes.
const (
	baseImage         = "python:3.11-slim"
	preinstalledImage = "boxwright-test/preinstalled:1" // with six and numpy
	busyboxImage      = "boxwright-test/busybox:1"      // no Python
	emptyImage        = "boxwright-test/empty:1"        // nothing at all
)

// docker runs the docker command and returns the lines of its output.
func docker(t *testing.T, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, &stderr)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// state is the state folder of an installation: the servers that share it are one instance.
type state struct{ dir string }

// newState makes a state folder. When the test is over, no box of it may be left; what is meant to
// outlive a server (volumes) is removed, but for the agent's volume, which is for all of its version.
func newState(t *testing.T) *state {
	t.Helper()
	s := &state{dir: t.TempDir()}
	t.Cleanup(func() {
		if s.instance() == "" {
			return
		}
		if left := s.boxes(t); len(left) > 0 {
			t.Errorf("%d boxes are left: %v", len(left), left)
			docker(t, append([]string{"rm", "-f"}, left...)...)
		}
		if volumes := s.volumes(t); len(volumes) > 0 {
			docker(t, append([]string{"volume", "rm", "-f"}, volumes...)...)
		}
	})
	return s
}

// instance is the installation's id; "" before its first server and without an engine.
func (s *state) instance() string {
	id, err := os.ReadFile(filepath.Join(s.dir, "instance"))
	if err != nil || dockerAbsence() != "" {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func (s *state) label() string { return "label=boxwright.instance=" + s.instance() }

// boxes lists all containers of the instance, running or not.
func (s *state) boxes(t *testing.T) []string {
	t.Helper()
	return docker(t, "ps", "-aq", "--no-trunc", "--filter", "label=boxwright=1", "--filter", s.label())
}

func (s *state) volumes(t *testing.T) []string {
	t.Helper()
	all := docker(t, "volume", "ls", "-q", "--filter", s.label())
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "boxwright-agent-") })
}

// environments lists the volumes that packages are installed in.
func (s *state) environments(t *testing.T) []string {
	t.Helper()
	return docker(t, "volume", "ls", "-q", "--filter", "label=boxwright.purpose=environment", "--filter", s.label())
}

// awaitNoEnvironment waits until an installation that was given up has left nothing.
func (s *state) awaitNoEnvironment(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, func() (bool, string) {
		left := append(s.environments(t), s.boxes(t)...)
		return len(left) == 0, fmt.Sprintf("%q", left)
	})
}

// awaitNoBoxes waits until all removals in the background are done.
func (s *state) awaitNoBoxes(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, func() (bool, string) {
		left := s.boxes(t)
		return len(left) == 0, fmt.Sprintf("%d boxes", len(left))
	})
}

// awaitBox waits for a running box and returns it. Its purpose is to run or to install.
func (s *state) awaitBox(t *testing.T, purpose string) string {
	t.Helper()
	var found []string
	eventually(t, 20*time.Second, func() (bool, string) {
		found = docker(t, "ps", "-q", "--no-trunc", "--filter", "label=boxwright.purpose="+purpose, "--filter", s.label())
		return len(found) > 0, "no box to " + purpose
	})
	return found[0]
}
