package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
)

// stage is where the plugin runs as an ordinary user: the one who tests, or if that is root, another.
type stage struct {
	plugin  string // the executable
	process syscall.SysProcAttr
	home    string
	owner   int // of its folders; -1 is whoever makes them
	agents  map[string]string
}

// newStage has this test's executable as the plugin, and the real agent.
func newStage(t *testing.T) stage {
	t.Helper()
	needBubblewrap(t)
	folder := openFolder(t)
	s := stage{plugin: copyOfThis(t, folder), home: os.Getenv("HOME"), owner: -1}
	if os.Geteuid() == 0 {
		u := ordinaryUser(t)
		s.owner, _ = strconv.Atoi(u.Uid)
		group, _ := strconv.Atoi(u.Gid)
		s.home, s.process.Credential = u.HomeDir, &syscall.Credential{Uid: uint32(s.owner), Gid: uint32(group)}
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(folder, "boxwright-agent-linux-"+runtime.GOARCH), "../../cmd/boxwright-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
	var err error
	if s.agents, err = sdktest.Agents(folder); err != nil {
		t.Fatal(err)
	}
	return s
}

// ordinaryUser is one that a test which runs as root can become.
func ordinaryUser(t *testing.T) *user.User {
	t.Helper()
	name := os.Getenv("BOXWRIGHT_TEST_USER")
	if name == "" {
		const none = "BOXWRIGHT_TEST_USER names no user to become; hack/podman-up.sh rootless makes one"
		if isRequired() {
			t.Fatal(none)
		}
		t.Skip(none)
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// openFolder is a temporary folder that others can look into.
func openFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// copyOfThis copies the test's executable, which lies in a folder of the builder's.
func copyOfThis(t *testing.T, folder string) string {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "plugin")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// state is an empty folder of the plugin's.
func (s stage) state(t *testing.T) string {
	t.Helper()
	state := filepath.Join(openFolder(t), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, s.owner, -1); err != nil {
		t.Fatal(err)
	}
	return state
}

func (s stage) options(state string) sdktest.Options {
	return sdktest.Options{
		Process: &s.process,
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GORACE=atexit_sleep_ms=0"},
		Config:  sdk.Config{Settings: []byte(`{"state": "` + state + `"}`), Agents: s.agents},
	}
}

// TestNotAsRoot: what gets out of a box would be root.
func TestNotAsRoot(t *testing.T) {
	_, err := open(t.Context(), sdk.Config{Settings: []byte(`{"state": "` + t.TempDir() + `"}`)})
	if want := map[bool]core.Kind{true: core.ErrDenied}[os.Geteuid() == 0]; core.KindOf(err) != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
