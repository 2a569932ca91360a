package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// state is the state folder of an installation: the servers that share it are one instance.
type state struct{ dir string }

// newState makes a state folder. When the test is over, no box of it may be left; what is meant to
// outlive a server (volumes) is removed, but for the agent's volume, which is for all of its version.
func newState(t *testing.T) *state {
	t.Helper()
	s := &state{dir: here().folder(t)}
	t.Cleanup(func() {
		if s.instance() == "" {
			return
		}
		left := s.boxes(t)
		// A server waits for an engine for so long and no longer: what it removed last may be about to go.
		for deadline := time.Now().Add(exitLimit); len(left) > 0 && time.Now().Before(deadline); left = s.boxes(t) {
			time.Sleep(100 * time.Millisecond)
		}
		if len(left) > 0 {
			t.Errorf("%d boxes are left: %v", len(left), left)
		}
		for _, box := range left {
			here().engine.removeBox(t, box)
		}
		for _, volume := range s.volumes(t) {
			if err := here().engine.removeVolume(volume); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// instance is the installation's id; "" before its first server and without an engine.
func (s *state) instance() string {
	id, err := os.ReadFile(filepath.Join(s.dir, "instance"))
	if err != nil || absence("engine") != "" {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// boxes lists all of the instance, running or not.
func (s *state) boxes(t *testing.T) []string {
	t.Helper()
	return here().engine.boxes(t, s.instance())
}

// volumes lists those of the instance, but for the agent's.
func (s *state) volumes(t *testing.T) []string {
	t.Helper()
	all := here().engine.volumes(t, s.instance())
	maps.DeleteFunc(all, func(_, purpose string) bool { return purpose == "agent" })
	return slices.Sorted(maps.Keys(all))
}

// environments lists the volumes that packages are installed in.
func (s *state) environments(t *testing.T) []string {
	t.Helper()
	all := here().engine.volumes(t, s.instance())
	maps.DeleteFunc(all, func(_, purpose string) bool { return purpose != "environment" })
	return slices.Sorted(maps.Keys(all))
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

// awaitBox waits for a running box of a purpose and returns it. Before it there may be the unpacking of an image.
func (s *state) awaitBox(t *testing.T, purpose string) string {
	t.Helper()
	var found []string
	eventually(t, 2*time.Minute, func() (bool, string) {
		found = here().engine.running(t, s.instance(), purpose)
		return len(found) > 0, "no box to " + purpose
	})
	return found[0]
}

// command runs another command of boxwright's beside the servers of a state, and returns what it printed.
func (s *state) command(t *testing.T, config string, args ...string) string {
	t.Helper()
	out, log, code := s.tryCommand(t, config, args...)
	if code != 0 {
		t.Fatalf("boxwright %s: exit status %d\n%s", strings.Join(args, " "), code, log)
	}
	return out
}

// tryCommand is command of one that may fail.
func (s *state) tryCommand(t *testing.T, config string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := here().Program(filepath.Join(programs, "boxwright"), append(args, "--config", settingsFile(t, here().settings(t, config)))...)
	cmd.Dir = here().folder(t)
	cmd.Env = append(here().Environment(cmd.Dir), "BOXWRIGHT_STORAGE_DIR="+s.dir)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}
