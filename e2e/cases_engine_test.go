package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// engineCases: images, limits, life cycle, protocol.
func engineCases() []testCase {
	return []testCase{
		{
			id: "B91 a local image", code: "print('local')", with: args{"image": preinstalledImage},
			want: outcome{stdout: "local\n"},
			also: func(t *testing.T, _ *server, r result) {
				if r.Image != preinstalledImage {
					t.Errorf("image %q", r.Image)
				}
			},
		},
		{
			id: "B91 an image that is not allowed", code: "print(1)", with: args{"image": "alpine"},
			want: outcome{refused: "denied", says: []string{"alpine", "python", "boxwright-test/*"}},
		},
		{id: "B91 an image that nobody has", play: imageNobodyHas},
		{
			id: "B91 a name that no image has", code: "print(1)", with: args{"image": "Python: 3"},
			want: outcome{refused: "invalid", says: []string{"an image is written like"}},
		},
		{id: "B99 the client is gone", play: func(t *testing.T, _ *server) { leavesNothing(t, nil) }},
		{id: "B99 the input ends", play: inputEnds},
		{id: "B99 SIGTERM", play: func(t *testing.T, _ *server) { leavesNothing(t, syscall.SIGTERM) }},
		{id: "B99 SIGINT", play: func(t *testing.T, _ *server) { leavesNothing(t, os.Interrupt) }},
		{id: "B99 SIGHUP", play: func(t *testing.T, _ *server) { leavesNothing(t, syscall.SIGHUP) }},
		{id: "B99 SIGKILL and another start", play: nextStartCleans},
		{
			id: "B102 no Python", code: "print(1)", with: args{"image": busyboxImage},
			want: outcome{refused: "unsupported", says: []string{"Python"}},
		},
		{
			id: "B102 nothing at all", code: "print(1)", with: args{"image": emptyImage},
			want: outcome{refused: "unsupported", says: []string{"Python"}},
		},
		{
			id: "B102 packages without Python", code: "print(1)", with: args{"image": busyboxImage, "dependencies": []string{"six"}},
			want: outcome{refused: "unsupported", says: []string{"Python"}},
		},
		{id: "B104 limits that cannot be", play: impossibleLimits},
		{id: "B108 SIGTERM while busy", play: func(t *testing.T, _ *server) { leavesNothing(t, syscall.SIGTERM) }},
		{id: "B110 what the server knows", play: serverKeepsToItself},
		{
			id: "B122 the engine's socket", code: "import os; print([p for p in ('/var/run/docker.sock', '/run/docker.sock') if os.path.exists(p)])",
			want: outcome{stdout: "[]\n"},
		},
		{id: "B112 nothing but JSON-RPC on stdout", play: nothingButJSONRPC},
		{id: "B123 faults in the settings", play: faultySettings},
	}
}

// imageNobodyHas: without a way out nobody can tell whether a registry has it.
func imageNobodyHas(t *testing.T, s *server) {
	const image = "boxwright-test/no-such:1"
	r := s.run(t, program("print(1)", "image", image))
	if !r.isError || r.Error.Type != "not_found" && r.Error.Type != "unavailable" || r.Error.Hint == "" {
		t.Errorf("got %s", r.raw)
	}
	holds(t, r.Error.Message, image)
}

// leavesNothing ends a server in the middle of a run: by a signal, or as a client does that dies.
func leavesNothing(t *testing.T, by os.Signal) {
	s := serve(t, setup{})
	c := s.begin(t, program("import time; time.sleep(600)", "timeout_seconds", 600))
	c.awaitProgress(t, "running")
	s.awaitBox(t, "run")
	plugin := s.plugin(t)
	if by == nil {
		s.stdin.Close()
		s.stdout.Close()
	} else {
		s.signal(t, by)
	}
	began := time.Now()
	if code := s.awaitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if left := s.boxes(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if isAlive(plugin) {
		t.Error("the plugin is still there")
	}
	<-c.done
}

// inputEnds: a script that pipes its calls in still gets their answers, and then nothing is left.
func inputEnds(t *testing.T, _ *server) {
	s := serve(t, setup{})
	c := s.begin(t, program("import time; time.sleep(2); print('answered')"))
	c.awaitProgress(t, "running")
	s.stdin.Close()
	outcome{stdout: "answered\n"}.check(t, c.wait(t))
	if code := s.awaitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := s.boxes(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func nextStartCleans(t *testing.T, _ *server) {
	state := newState(t)
	first := serve(t, setup{state: state})
	c := first.begin(t, program("import time; time.sleep(600)", "timeout_seconds", 600))
	c.awaitProgress(t, "running")
	box := state.awaitBox(t, "run")
	plugin := first.plugin(t)
	first.signal(t, syscall.SIGKILL)
	first.awaitExit(t)
	if !slices.Contains(state.boxes(t), box) {
		t.Fatal("the box is gone with its server: the test shows nothing")
	}
	second := serve(t, setup{state: state})
	state.awaitNoBoxes(t)
	outcome{stdout: "next\n"}.check(t, second.run(t, program("print('next')")))
	eventually(t, exitLimit, func() (bool, string) { return !isAlive(plugin), "the dead server's plugin runs" })
	<-c.done
}

// refuse starts a server that must not start, and returns what it says.
func refuse(t *testing.T, config string, env ...string) string {
	t.Helper()
	work := here().folder(t)
	cmd := here().Program(filepath.Join(programs, "boxwright"), "serve", "--config", settingsFile(t, config))
	cmd.Dir = work
	cmd.Env = append(append(here().Environment(work), "BOXWRIGHT_STORAGE_DIR="+work), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%s %v: %v, want exit status 2", config, env, err)
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout has %q", &stdout)
	}
	return stderr.String()
}

func impossibleLimits(t *testing.T, _ *server) {
	for setting, says := range map[string]string{
		"memory: 0":      "limits.memory is 0",
		"cpus: 0":        "limits.cpus is 0",
		"pids: 0":        "limits.pids is 0",
		"cpus: -1":       "-1 CPUs are too few",
		"memory: 1q":     "limits.memory must be a size such as 512MiB",
		"memory: -1":     "memory of -1B is too little",
		"pids: 3":        "a limit of 3 processes is too low",
		"memory: 1MiB":   "memory of 1MiB is too little",
		"disk: 1000GiB":  "a disk of 1000GiB is too big",
		"unenforced: no": "limits.unenforced must be one of refuse, warn",
	} {
		holds(t, refuse(t, "limits: {"+setting+"}\n"), says)
	}
}

func faultySettings(t *testing.T, _ *server) {
	text := refuse(t, "limits:\n  memroy: 2g\nruns:\n  timeout: 30\nfiles:\n  dir: '\"/data\"'\n")
	holds(t, text,
		"boxwright.yaml:2: limits.memroy is not a setting (did you mean limits.memory?)",
		"boxwright.yaml:4: runs.timeout must be a time with a unit",
		"boxwright.yaml:6: files.dir must not hold quotes")
	holds(t, refuse(t, "limits: [\n"), "boxwright.yaml:", "is not YAML")
	holds(t, refuse(t, "", "BOXWRIGHT_LIMITS_MEMROY=1g"), "BOXWRIGHT_LIMITS_MEMROY is not a setting", "BOXWRIGHT_LIMITS_MEMORY")
	holds(t, refuse(t, "", `BOXWRIGHT_IMAGES_ALLOW="python"`), "BOXWRIGHT_IMAGES_ALLOW: images.allow must not hold quotes")
	holds(t, refuse(t, "", "BOXWRIGHT_CONFIG=/nowhere.yaml", "BOXWRIGHT_RUNS_TIMEOUT=x"), "runs.timeout must be a time")
}

func serverKeepsToItself(t *testing.T, _ *server) {
	const secret = "sesame-8f31"
	s := serve(t, setup{config: "log: {level: debug}\n", env: []string{"E2E_API_KEY=" + secret, "PIP_PASSWORD=" + secret}})
	r := s.run(t, program("import os\nprint(dict(os.environ))\nprint(open('/proc/1/cmdline').read())"))
	outcome{any: true}.check(t, r)
	if strings.Contains(r.Stdout, secret) || strings.Contains(s.stderr.String(), secret) {
		t.Errorf("%s\n%s", r.Stdout, s.stderr)
	}
}
