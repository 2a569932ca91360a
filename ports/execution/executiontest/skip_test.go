package executiontest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// listKey makes this test binary run the suite with a hook missing; its value is what it lists.
const listKey = "BOXWRIGHT_TEST_SKIPS"

func TestSkipsAreListed(t *testing.T) {
	if list, child := os.LookupEnv(listKey); child {
		executiontest.Run(t, func(*testing.T) executiontest.Env {
			env := executiontest.FakeEnv(executiontest.NewFake(), itself)
			env.Hooks.MissingImage = ""
			return env
		}, list)
		return
	}
	for _, c := range []struct {
		list, require string
		passes        bool
	}{{"image/missing", "docker", true}, {"image/never", "docker", false}, {"image/never", "", true}} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSkipsAreListed$/^image$/^(missing|never)$")
		cmd.Env = append(os.Environ(), listKey+"="+c.list, "BOXWRIGHT_REQUIRE="+c.require)
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.passes {
			t.Errorf("listed %q, required %q: %v\n%s", c.list, c.require, err, out)
		}
		if !c.passes && !strings.Contains(string(out), "image/missing is not among the checks") {
			t.Errorf("it does not name the check:\n%s", out)
		}
	}
}

func TestRemoteSkipsAreWhatIsSkipped(t *testing.T) {
	var skipped []string
	for _, c := range executiontest.Checks() {
		if executiontest.Skipped(c.Run(t.Context(), executiontest.RemoteFakeEnv(executiontest.NewFake()))) {
			skipped = append(skipped, c.Name)
		}
	}
	if want := executiontest.RemoteSkips(); !slices.Equal(skipped, want) {
		t.Errorf("skipped are %q, listed %q", skipped, want)
	}
}
