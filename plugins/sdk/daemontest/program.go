package daemontest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// standin is the package of the stand-in for the agent.
const standin = "github.com/boxwright/boxwright/plugins/sdk/daemontest/testdata/standin"

// programs are what Program has built, by package: functions that build at the first call.
var programs sync.Map

// Program puts the program of a package, as "go build" takes it with these flags, at path. It is built once for all tests
// of a process: to link it takes seconds.
func Program(t *testing.T, path, pkg string, flags ...string) {
	t.Helper()
	built, _ := programs.LoadOrStore(pkg, sync.OnceValues(func() ([]byte, error) { return link(pkg, flags) }))
	build, _ := built.(func() ([]byte, error)) // nothing else is stored
	content, err := build()
	if err == nil {
		err = os.WriteFile(path, content, 0o755) //nolint:gosec // a program
	}
	if err != nil {
		t.Fatal(err)
	}
}

func link(pkg string, flags []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "boxwright-program-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	path := filepath.Join(dir, "program")
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath"}, flags...), "-o", path, pkg)...) //nolint:gosec // a test's own
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return os.ReadFile(path) //nolint:gosec // it has just been made
}

// BuildStandin builds the stand-in for the agent, and returns its path.
func BuildStandin(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "standin")
	Program(t, path, standin)
	return path
}
