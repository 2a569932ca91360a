package e2e

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/sqlite"
)

// env runs "boxwright env" beside the servers of a state, and returns what it printed.
func (s *state) env(t *testing.T, args ...string) string {
	t.Helper()
	return s.command(t, "", append([]string{"env"}, args...)...)
}

// keptEnvironment is one as the commands print it.
type keptEnvironment struct {
	Key      string    `json:"key"`
	Packages []string  `json:"packages"`
	Backend  string    `json:"backend"`
	Size     int64     `json:"size_bytes"`
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used"`
	Lock     string    `json:"lock"`
}

func (s *state) listEnvironments(t *testing.T) (list []keptEnvironment) {
	t.Helper()
	out := s.env(t, "list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return list
}

// usesSix wants a run with six to install nothing.
func usesSix(t *testing.T, s *server) {
	t.Helper()
	r := s.run(t, program("import six; print(six.__name__)", "dependencies", []string{"six"}))
	outcome{stdout: "six\n"}.check(t, r)
	if r.InstallLog != "" {
		t.Errorf("it was installed again: %s", r.InstallLog)
	}
}

// TestEnvCommands: what an operator has installed beside a server is there for its runs, and can be looked at.
func TestEnvCommands(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	if list := s.listEnvironments(t); len(list) != 0 {
		t.Fatalf("there is %+v", list)
	}
	if out := s.env(t, "warm", "six"); !strings.HasPrefix(out, "KEY ") || strings.Count(out, "\n") != 2 {
		t.Errorf("warm printed %q", out)
	}
	usesSix(t, s)
	list := s.listEnvironments(t)
	if len(list) != 1 || list[0].Packages[0] != "six" || list[0].Backend != here().Backend || list[0].Size < 30_000 || !list[0].Used.After(list[0].Created) {
		t.Fatalf("there is %+v", list)
	}
	var one keptEnvironment
	if err := json.Unmarshal([]byte(s.env(t, "show", list[0].Key[:8], "--json")), &one); err != nil || !strings.Contains(one.Lock, "six==") {
		t.Errorf("show printed %+v, %v", one, err)
	}
}

// TestEnvWarmInPart: of sets of which one cannot be installed, the answer has the others, and the error says why.
func TestEnvWarmInPart(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := newState(t)
	config := "dependencies: {warm: [{packages: [no-such-pkg-zz9]}, {packages: [idna]}, {image: elsewhere/tool, packages: [six]}]}\n"
	out, log, code := s.tryCommand(t, config, "env", "warm", "--json")
	var list []keptEnvironment
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 1 || len(list) != 1 || list[0].Packages[0] != "idna" {
		t.Errorf("exit status %d: %s, %v", code, out, err)
	}
	for _, want := range []string{"installing no-such-pkg-zz9 failed", "image elsewhere/tool:latest is not allowed"} {
		if !strings.Contains(log, want) {
			t.Errorf("stderr lacks %q:\n%s", want, log)
		}
	}
}

// TestEnvGC: what nobody has used for too long goes, and is installed again when somebody asks for it.
func TestEnvGC(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	s.env(t, "warm", "six")
	s.env(t, "warm", "idna")
	if out := s.env(t, "gc"); !strings.HasPrefix(out, "removed 0 ") {
		t.Errorf("nothing is too old or too large, but gc printed %q", out)
	}
	usesSix(t, s)
	s.age(t, "six", 48*time.Hour)
	if out := s.env(t, "gc", "--set", "dependencies.keep.max_age=24h", "--json"); !strings.Contains(out, `"environments": 1,`) {
		t.Errorf("gc printed %q", out)
	}
	if list := s.listEnvironments(t); len(list) != 1 || list[0].Packages[0] != "idna" {
		t.Errorf("there is %+v", list)
	}
	r := s.run(t, program("import six; print(six.__name__)", "dependencies", []string{"six"}))
	outcome{stdout: "six\n"}.check(t, r)
	if r.InstallLog == "" {
		t.Error("it was not installed again")
	}
}

// TestEnvGCSparesSandboxes: what a sandbox has stays as long as the sandbox does, however old it is.
func TestEnvGCSparesSandboxes(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	sandbox := s.open(t, args{"dependencies": []string{"six"}})
	s.age(t, "six", 48*time.Hour)
	gc := func() string { return s.env(t, "gc", "--set", "dependencies.keep.max_age=24h", "--json") }
	if out := gc(); !strings.Contains(out, `"environments": 0,`) {
		t.Errorf("gc printed %q", out)
	}
	s.cell(t, sandbox, "import six; six.__name__").shows(t, "'six'")
	s.use(t, "sandbox_stop", args{"sandbox_id": sandbox})
	if out := gc(); !strings.Contains(out, `"environments": 1,`) {
		t.Errorf("once the sandbox has ended gc printed %q", out)
	}
}

// age makes the packages look as if they were last used so long ago.
func (s *state) age(t *testing.T, packages string, by time.Duration) {
	t.Helper()
	database, err := sqlite.Open(filepath.Join(s.dir, "boxwright.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	index := database.Environments()
	for _, known := range s.listEnvironments(t) {
		if strings.Join(known.Packages, " ") != packages {
			continue
		}
		e, err := index.Get(t.Context(), known.Key)
		e.Created, e.Used = e.Created.Add(-by), e.Used.Add(-by)
		if err := errors.Join(err, index.Put(t.Context(), e)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWarmAtStart: a set of the settings is installed before anybody asks for it; one that cannot be is told in
// the log and keeps no other from it.
func TestWarmAtStart(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{config: "dependencies: {warm: [{packages: [no-such-pkg-zz9]}, {packages: [six]}]}\n"})
	eventually(t, 2*time.Minute, func() (bool, string) {
		return len(s.listEnvironments(t)) == 1, "nothing is installed:\n" + s.stderr.String()
	})
	usesSix(t, s)
	if log := s.stderr.String(); !strings.Contains(log, "packages could not be installed ahead") || !strings.Contains(log, "no-such-pkg-zz9") {
		t.Errorf("the log lacks it:\n%s", log)
	}
}
