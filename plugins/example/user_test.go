package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// ordinaryUser is one that a test which runs as root can become.
func ordinaryUser(t *testing.T) *user.User {
	t.Helper()
	name := os.Getenv("BOXWRIGHT_TEST_USER")
	switch {
	case os.Getuid() != 0:
		t.Skip("this is an ordinary user: the other tests show it")
	case name == "" && isRequired():
		t.Fatal("BOXWRIGHT_TEST_USER names no user to become; hack/podman-up.sh rootless makes one")
	case name == "":
		t.Skip("BOXWRIGHT_TEST_USER names no user to become; hack/podman-up.sh rootless makes one")
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

// TestAsAnOrdinaryUser: a user without rights makes the same boxes as root.
func TestAsAnOrdinaryUser(t *testing.T) {
	needBubblewrap(t)
	u, folder := ordinaryUser(t), openFolder(t)
	for name, pkg := range map[string]string{"plugin": ".", "boxwright-agent-linux-amd64": "../../cmd/boxwright-agent"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(folder, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", pkg, err, out)
		}
	}
	agents, err := sdktest.Agents(folder)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, "state")
	uid, _ := strconv.Atoi(u.Uid)
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, uid, -1); err != nil {
		t.Fatal(err)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Fatal(err)
	}
	b := sdktest.Spawn(t, setpriv, sdktest.Options{
		Args:   []string{"--reuid", u.Uid, "--regid", u.Gid, "--clear-groups", "--no-new-privs", filepath.Join(folder, "plugin")},
		Env:    []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.HomeDir},
		Config: sdk.Config{Settings: []byte(`{"state": "` + state + `"}`), Agents: agents},
	})
	info, err := b.Info(t.Context())
	if err != nil || len(info.Warnings) != 1 {
		t.Fatalf("it warns of %q, %v", info.Warnings, err)
	}
	env, err := sdktest.Env(t.Context(), b, core.ImageHost, executiontest.NewInstance())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range executiontest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			err := c.Run(t.Context(), env)
			if err != nil && !executiontest.Skipped(err) {
				t.Errorf("%s: %v", c.Clause, err)
			}
			if err := executiontest.Sweep(t.Context(), env); err != nil {
				t.Error(err)
			}
		})
	}
}
