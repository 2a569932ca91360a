package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata/mcp")

// programs is the folder of the built executables.
var programs string

func TestMain(m *testing.M) {
	// Most of a test is waiting for boxes: more of them at once than there are processors.
	_ = flag.Set("test.parallel", "4")
	flag.Parse()
	if testing.Short() {
		if !*update {
			fmt.Fprintln(os.Stderr, "e2e: left out of a short test; it needs an engine")
			return
		}
		_ = flag.Set("test.run", "^TestTranscripts$") // "make golden" asks for no more
	}
	os.Exit(withPrograms(m.Run))
}

// withPrograms runs the tests against BOXWRIGHT_TEST_BIN, or against programs built for them.
func withPrograms(run func() int) int {
	if programs = os.Getenv("BOXWRIGHT_TEST_BIN"); programs != "" {
		return withReadable(run)
	}
	dir, err := os.MkdirTemp("", "boxwright-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the programs do not build:", err)
		return 1
	}
	programs = dir
	return withReadable(run)
}

// withReadable runs the tests with programs that the place's user can read.
func withReadable(run func() int) int {
	dir, cleanup, err := here().readable(programs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer cleanup()
	if here().cleanup != nil {
		defer here().cleanup()
	}
	programs = dir
	return run()
}

// build makes what "make build" does, for this machine only.
func build(dir string) error {
	for name, env := range map[string][]string{
		"boxwright":     nil,
		here().plugin(): nil,
		"boxwright-agent-linux-" + runtime.GOARCH: {"GOOS=linux"},
	} {
		source, _, _ := strings.Cut(name, "-linux-")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "../cmd/"+source)
		cmd.Env = append(os.Environ(), append(env, "CGO_ENABLED=0")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", source, err, out)
		}
	}
	return nil
}

// require skips the test when something that it needs is absent, and fails it when
// BOXWRIGHT_REQUIRE says that it must not be.
func require(t *testing.T, what string) {
	t.Helper()
	why := absence(what)
	if what == "engine" {
		what = here().Name // as BOXWRIGHT_REQUIRE calls it
	}
	switch {
	case why == "":
	case slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), what):
		t.Fatalf("%s is required: %s", what, why)
	default:
		t.Skipf("%s: %s", what, why)
	}
}

func absence(what string) string {
	switch what {
	case "engine":
		return engineAbsence()
	case "root":
		if os.Getuid() != 0 {
			return "only root can make another network"
		}
		return ""
	case "clients":
		for _, name := range []string{
			"BOXWRIGHT_CLIENT_MCP1", "BOXWRIGHT_CLIENT_MCP2", "BOXWRIGHT_CLIENT_FASTMCP", "BOXWRIGHT_INSPECTOR",
			"BOXWRIGHT_CLIENT_NPM", "BOXWRIGHT_CLIENT_REMOTE", "BOXWRIGHT_CLIENT_CONFORMANCE1", "BOXWRIGHT_CLIENT_CONFORMANCE2",
		} {
			if _, err := os.Stat(os.Getenv(name)); err != nil {
				return name + " names no program; hack/clients.sh prints it"
			}
		}
		return ""
	}
	return "nobody knows what it is"
}

var engineAbsence = sync.OnceValue(func() string { return here().engine.absence() })

// eventually waits until ok says yes; what ok says otherwise is in the failure.
func eventually(t *testing.T, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still: %s", within, state)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
