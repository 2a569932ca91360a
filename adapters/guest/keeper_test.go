package guest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// keeper says what makes a box's limits hold; the empty one is runc.
type keeper string

const (
	runc     keeper = "runc"  // control groups
	agent    keeper = "agent" // the agent: the engine is not asked for any
	runsc    keeper = "runsc" // gVisor with the agent: a control group holds the sandbox
	maxTasks        = 128
	// sandboxMemory is what gVisor itself may use.
	sandboxMemory = 256 << 20
	// sandboxThreads and threadsPerTask are how many of the host's threads gVisor may have.
	sandboxThreads = 512
	threadsPerTask = 4
)

// onEachKernel runs a test on Linux and on gVisor.
func onEachKernel(t *testing.T, test func(t *testing.T, k keeper)) { with(t, test, runc, runsc) }

// onEach runs a test with each keeper.
func onEach(t *testing.T, test func(t *testing.T, k keeper)) { with(t, test, runc, agent, runsc) }

func with(t *testing.T, test func(t *testing.T, k keeper), keepers ...keeper) {
	for _, k := range keepers {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // with other keepers of the same test only
			require(t, pythonImage)
			k.require(t)
			test(t, k)
		})
	}
}

// require skips a test for want of a runtime, unless that is forbidden.
func (k keeper) require(t *testing.T) {
	t.Helper()
	if k != runsc {
		return
	}
	err := known("the runtime runsc", func() error {
		yes, err := docker("info", "--format", "{{with index .Runtimes \"runsc\"}}yes{{end}}")
		if err == nil && yes != "yes" {
			err = errors.New("the engine has none")
		}
		return err
	})
	if err == nil {
		return
	}
	if strings.Contains(os.Getenv("BOXWRIGHT_REQUIRE"), "docker-runsc") {
		t.Fatalf("Docker with the runtime runsc is required: %v", err)
	}
	t.Skip("needs Docker with the runtime runsc; hack/docker-up.sh runsc makes it")
}

// option makes newBox's box one of this keeper's.
func (k keeper) option() []string { return []string{"--keeper", string(k)} }

// bound adds a box's limits to the options of "docker create" and to the agent's. --memory says how much,
// --keeper who keeps them.
func (k keeper) bound(options, flags []string) (forEngine, forAgent []string) {
	memory := "512m"
	options = slices.Clone(options)
	for i := 0; i+1 < len(options); i++ {
		switch options[i] {
		case "--memory":
			memory = options[i+1]
		case "--keeper":
			k = keeper(options[i+1])
		default:
			continue
		}
		options = slices.Delete(options, i, i+2)
		i--
	}
	bytes := inBytes(memory)
	ours := []string{"--max-memory", fmt.Sprint(bytes), "--max-processes", fmt.Sprint(maxTasks)}
	switch k { //nolint:exhaustive // the rest is as runc
	case agent:
		return options, append(ours, flags...)
	case runsc:
		whole := fmt.Sprint(bytes + sandboxMemory)
		threads := fmt.Sprint(sandboxThreads + maxTasks*threadsPerTask)
		return append(options, "--runtime", "runsc", "--memory", whole, "--memory-swap", whole, "--pids-limit", threads), append(ours, flags...)
	}
	return append(options, "--memory", memory, "--memory-swap", memory, "--pids-limit", fmt.Sprint(maxTasks)), flags
}

// inBytes reads what Docker writes as 256m or 1g.
func inBytes(text string) int64 {
	n, _ := strconv.ParseInt(text[:len(text)-1], 10, 64)
	if strings.HasSuffix(text, "g") {
		return n << 30
	}
	return n << 20
}

// bomb runs a program that wants more memory than its box has. On gVisor the control group may be faster than
// the agent, and end the whole sandbox: then there is no exit, and ok is false.
func (k keeper) bomb(t *testing.T, code, memory string) (g execution.Guest, exit core.Exit, ok bool) {
	t.Helper()
	b := newBox(t, pythonImage, append(k.option(), "--memory", memory)...)
	g = connect(t, b)
	exit, err := g.Run(t.Context(), python(code), nil)
	switch {
	case err == nil:
		return g, exit, true
	case k != runsc || core.KindOf(err) != core.ErrUnavailable || !b.diedOfMemory():
		t.Errorf("Run: %v", err)
	}
	return g, exit, false
}

// onPodman runs tests again, on the Podman whose socket the variable names. name is what BOXWRIGHT_REQUIRE
// calls it.
func onPodman(t *testing.T, name, variable, tests string) {
	t.Helper()
	socket := os.Getenv(variable)
	if socket == "" || testing.Short() {
		if slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), name) {
			t.Fatalf("%s is not set; hack/podman-up.sh prints it", variable)
		}
		t.Skipf("needs Podman: %s, which hack/podman-up.sh prints", variable)
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run", tests)
	again.Env = append(os.Environ(), "BOXWRIGHT_TEST_ENGINE=podman --remote --url "+socket, "BOXWRIGHT_REQUIRE=docker")
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}
