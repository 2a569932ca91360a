package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beginInstall returns once a big installation is under way.
func beginInstall(t *testing.T, s *server) *call {
	t.Helper()
	c := s.begin(t, program("print('ran')", "dependencies", []string{"numpy", "pandas"}))
	s.awaitBox(t, "install")
	return c
}

// TestInstallCancelled: nothing is left of an installation that nobody waits for any more.
func TestInstallCancelled(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	c := beginInstall(t, s)
	c.cancel()
	s.awaitNoEnvironment(t)
	outcome{stdout: "1\n"}.check(t, s.run(t, program("print(1)")))
}

// TestInstallTerminated: nor when the server is told to end.
func TestInstallTerminated(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	c := beginInstall(t, s)
	s.signal(t, syscall.SIGTERM)
	if code := s.awaitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := append(s.environments(t), s.boxes(t)...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	<-c.done
}

// TestInstallKilled: nor when it is killed and starts again; half an installation is never used.
func TestInstallKilled(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	first := serve(t, setup{state: state})
	c := beginInstall(t, first)
	first.signal(t, syscall.SIGKILL)
	first.awaitExit(t)
	<-c.done
	if len(state.environments(t)) == 0 {
		t.Fatal("the volume is gone with its server: the test shows nothing")
	}
	second := serve(t, setup{state: state})
	state.awaitNoEnvironment(t)
	r := second.run(t, program("import pandas; print(pandas.DataFrame({'a': [1]}).shape)", "dependencies", []string{"numpy", "pandas"}, "timeout_seconds", 120))
	outcome{stdout: "(1, 1)\n"}.check(t, r)
}

// TestVolumesPruned: an operator may remove what no box uses, also below a running server. The
// agent is one of the test's own, so that no other test loses its volume.
func TestVolumesPruned(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{programs: ownAgent(t)})
	prune := func() {
		eventually(t, time.Minute, func() (bool, string) { // a box that compiles packages may just have come
			s.awaitNoBoxes(t)
			var all []error
			for name := range here().engine.volumes(t, s.instance()) {
				all = append(all, here().engine.removeVolume(name))
			}
			err := errors.Join(all...)
			return err == nil, fmt.Sprint(err)
		})
	}
	six := program("import six; print(six.__name__)", "dependencies", []string{"six"})
	want := outcome{stdout: "six\n"}
	want.check(t, s.run(t, six))
	prune()
	want.check(t, s.run(t, six))
	outcome{stdout: "1\n"}.check(t, s.run(t, program("print(1)")))
	prune()
}

// ownAgent is a folder of the programs with an agent that does the same and is another one.
func ownAgent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(programs, "boxwright*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(file), "boxwright-agent-linux-") {
			data = append(data, "e2e"...)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCourierKilled: the installation goes on with another one, and whoever asks once more gets the whole of it. Mostly the
// courier is killed while it waits for the installer.
func TestCourierKilled(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{})
	c := beginInstall(t, s)
	here().engine.removeBox(t, s.awaitBox(t, "keep"))
	outcome{stdout: "ran\n"}.check(t, c.wait(t))
	again := program("import pandas; print(pandas.DataFrame({'a': [1]}).shape)", "dependencies", []string{"numpy", "pandas"}, "timeout_seconds", 120)
	outcome{stdout: "(1, 1)\n"}.check(t, s.run(t, again))
	if list := s.listEnvironments(t); len(list) != 1 {
		t.Errorf("there is %+v", list)
	}
}
