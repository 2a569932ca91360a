package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/boxwright/boxwright/e2e/conformance"
)

// expectedFailures names what the MCP library cannot do, with why.
const expectedFailures = "conformance/expected-failures.yaml"

// suite is one run of a version of the official conformance suite.
type suite struct {
	program   string // the environment variable that names it
	args      []string
	scenarios int // how many there are: a suite that runs none fails none
}

// suites are all that concern a server, by the revision of the protocol that they are about.
func suites() map[string]suite {
	const first, second = "BOXWRIGHT_CLIENT_CONFORMANCE1", "BOXWRIGHT_CLIENT_CONFORMANCE2"
	return map[string]suite{
		"released":   {first, []string{"--suite", "all"}, 32},
		"2025-03-26": {second, []string{"--suite", "all", "--spec-version", "2025-03-26"}, 1},
		"2025-06-18": {second, []string{"--suite", "all", "--spec-version", "2025-06-18"}, 27},
		"2025-11-25": {second, []string{"--requirements", "2025-11-25"}, 33},
		"2026-07-28": {second, []string{"--requirements", "2026-07-28"}, 50},
	}
}

// TestConformance: with the tools that the suites ask for behind our guard and our transport, every scenario passes but
// for what the library cannot do. "make conformance" runs each suite N times.
func TestConformance(t *testing.T) {
	require(t, "clients")
	onePlace(t)
	t.Parallel()
	url := serveFixture(t)
	for name, s := range suites() {
		for range conformanceRuns(t) {
			t.Run(name, func(t *testing.T) {
				summary, checks, err := s.run(t, url, expectedFailures)
				if err == nil {
					return
				}
				t.Errorf("%v\n%s", err, summary)
				for _, c := range checks {
					if c.isWrong() {
						t.Log(c)
					}
				}
			})
		}
	}
}

// TestConformanceOfTheServer: what the suites ask of every server, Boxwright itself does, with its own tools.
func TestConformanceOfTheServer(t *testing.T) {
	require(t, "engine")
	require(t, "clients")
	onePlace(t)
	t.Parallel()
	url := "http://" + launch(t, setup{transport: overStreamable}, nil).address(t) + "/mcp"
	expected := readExpectedFailures(t)
	for name, scenarios := range map[string][]string{
		"2025-03-26": {"server-session-lifecycle"},
		"2025-06-18": {"server-initialize", "ping", "tools-list", "resources-list", "server-session-lifecycle"},
		"2025-11-25": {
			"server-initialize", "ping", "tools-list", "resources-list", "server-session-lifecycle", "server-sse-multiple-streams",
			"dns-rebinding-protection",
		},
		"2026-07-28": {
			"server-stateless", "tools-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection",
			"sep-2164-resource-not-found", "http-header-validation", "input-required-result-unsupported-methods",
		},
	} {
		for range conformanceRuns(t) {
			t.Run(name, func(t *testing.T) {
				summary, checks, _ := suites()[name].run(t, url, "") // it asks for other tools as well
				judge(t, scenarios, expected, checks, summary)
			})
		}
	}
}

// judge has each of the scenarios pass in all that can be tested without the suites' own tools.
func judge(t *testing.T, scenarios, expected []string, checks []check, summary string) {
	t.Helper()
	passed := map[string]int{}
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			passed[c.scenario]++
		case !c.isWrong(), !slices.Contains(scenarios, c.scenario), c.Details.Untestable, slices.Contains(expected, c.scenario+":"+c.ID):
		default:
			t.Error(c)
		}
	}
	for _, scenario := range scenarios {
		if passed[scenario] == 0 {
			t.Errorf("%s: nothing passed\n%s", scenario, summary)
		}
	}
}

// conformanceRuns is how often each suite runs.
func conformanceRuns(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BOXWRIGHT_TEST_CONFORMANCE")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serveFixture serves the tools that the suites ask for, and returns the address of the endpoint.
func serveFixture(t *testing.T) string {
	t.Helper()
	listener, err := conformance.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { ended <- conformance.Serve(ctx, listener, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String() + "/mcp"
}

// check is one of a scenario.
type check struct {
	scenario string
	ID       string `json:"id"`
	Status   string `json:"status"`
	Message  string `json:"errorMessage"`
	Details  struct {
		Untestable bool `json:"untestable"` // for want of a tool
	} `json:"details"`
}

// isWrong is true of what the suite counts if it was told what to expect.
func (c check) isWrong() bool { return c.Status == "FAILURE" || c.Status == "WARNING" }

func (c check) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", c.scenario, c.ID, strings.ToLower(c.Status), c.Message)
}

// run runs the suite against a server. Its error is that of the suite, which knows what counts.
func (s suite) run(t *testing.T, url, expected string) (summary string, checks []check, err error) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"server", "--url", url, "--output-dir", dir}, s.args...)
	if expected != "" {
		args = append(args, "--expected-failures", expected)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	text, err := exec.CommandContext(ctx, os.Getenv(s.program), args...).CombinedOutput()
	summary = string(text[max(0, bytes.Index(text, []byte("=== SUMMARY"))):])
	files, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if len(files) != s.scenarios {
		t.Fatalf("it ran %d scenarios, not %d: %v\n%s", len(files), s.scenarios, err, summary)
	}
	for _, file := range files {
		checks = append(checks, readChecks(t, file)...)
	}
	return summary, checks, err
}

// readChecks reads those of one scenario, which the folder is named after.
func readChecks(t *testing.T, file string) []check {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(text, &checks); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	name := regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT.*$`).ReplaceAllString(filepath.Base(filepath.Dir(file)), "$1")
	for i := range checks {
		checks[i].scenario = name
	}
	return checks
}

func readExpectedFailures(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(expectedFailures)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Server []string }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Server
}
