package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// stoppedShell: what stops itself with all of its group is ended in time, and the sandbox goes on.
func stoppedShell(t *testing.T, s *server, sandbox string) {
	r := s.use(t, "sandbox_exec", args{"command": "echo a; kill -STOP 0; sleep 100", "sandbox_id": sandbox, "timeout_seconds": 3})
	outcome{status: "timed_out", exit: 137, signal: "SIGKILL", stdout: "a\n"}.check(t, r)
	s.cell(t, sandbox, "1").shows(t, "1")
}

// sessionTimeLimits: the tools of sandboxes have the rule that all have.
func sessionTimeLimits(t *testing.T, s *server, sandbox string) {
	for name, a := range map[string]args{
		"run_python":   {"code": "1", "sandbox_id": sandbox},
		"sandbox_exec": {"command": "true", "sandbox_id": sandbox},
		"run_code":     {"code": "true", "language": "bash"},
	} {
		for value, refused := range map[string]bool{"0": true, "-1": true, "601": true, `"soon"`: true, "1.5e2": false, `"5"`: false, "null": false, "600": false} {
			a["timeout_seconds"] = json.RawMessage(value)
			r := s.use(t, name, a)
			if r.isError != refused || refused && (r.Error.Type != "invalid" || !strings.Contains(r.Error.Message, "timeout_seconds")) {
				t.Errorf("%s with %s: %s", name, value, r.raw)
			}
		}
	}
}

// otherSandboxes: a loop in one keeps no other waiting.
func otherSandboxes(t *testing.T, s *server, sandbox string) {
	loop := s.sendTo(t, "run_python", args{"code": "while True: pass", "sandbox_id": sandbox, "timeout_seconds": 300}, nil)
	other := s.open(t, args{})
	for i := range 3 {
		s.cell(t, other, fmt.Sprint(i)).shows(t, fmt.Sprint(i))
	}
	select {
	case <-loop.done:
		t.Error("the loop ended")
	default:
	}
	loop.cancel()
	<-loop.done
}

// sandboxOutOfMemory: the call says so, and what is left of the sandbox is told: its files, or nothing where a box is
// ended as a whole.
func sandboxOutOfMemory(t *testing.T, _ *server, _ string) {
	s := serve(t, setup{config: "limits: {memory: 256MiB}\n"})
	sandbox := s.open(t, args{})
	s.cell(t, sandbox, "x = 1; open('kept', 'w').write('f');")
	r := s.cell(t, sandbox, "print('before', flush=True)\ny = bytearray(10**9)")
	if r.Status != "oom_killed" || !r.warns(stateLost) && !r.warns("is lost") {
		t.Errorf("got %s", r.raw)
	}
	r = s.cell(t, sandbox, "import os; ('x' in globals(), os.path.exists('kept'))")
	if r.Error.Type == "session_expired" {
		holds(t, r.text, "ran out of memory", "sandbox_initialize")
		return
	}
	r.shows(t, "(False, True)")
}

// sandboxNames: any that a person may choose names a sandbox; none leads anywhere else.
func sandboxNames(t *testing.T, s *server, sandbox string) {
	for _, name := range []string{strings.Repeat("n", 70), "9abc", "a b", "ж", "../x", "a'; touch /tmp/x; '", "%00"} {
		r := s.use(t, "sandbox_initialize", args{"name": name})
		if r.isError {
			t.Errorf("%q: %s", name, r.raw)
			continue
		}
		if got := s.cell(t, name, "1"); got.SandboxID != r.SandboxID {
			t.Errorf("%q is %q, not %q", name, got.SandboxID, r.SandboxID)
		}
		s.use(t, "sandbox_stop", args{"sandbox_id": name})
	}
	for _, name := range []string{"a\tb", "a\x00b", strings.Repeat("n", 101)} {
		if r := s.use(t, "sandbox_initialize", args{"name": name}); r.Error.Type != "invalid" {
			t.Errorf("%q: %s", name, r.raw)
		}
	}
	nameless := s.open(t, args{"name": ""})
	if nameless == "" || nameless == sandbox {
		t.Errorf("without a name it is %q", nameless)
	}
}

func awaitInJavaScript(t *testing.T, _ *server, _ string) {
	s := serve(t, setup{config: testImages + "languages:\n  javascript: {image: \"" + nodeImage + "\"}\n"})
	sandbox := s.open(t, args{"image": nodeImage})
	r := s.use(t, "run_code", args{"language": "javascript", "code": "const r = await Promise.resolve(1); console.log(r)", "sandbox_id": sandbox})
	outcome{stdout: "1\n"}.check(t, r)
}

// TestLogStaysJSON (B23): each line is, whatever goes on meanwhile.
func TestLogStaysJSON(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{config: "log: {format: json, level: debug}\n"})
	c := s.begin(t, program("import time\nfor i in range(20): print('line', i, flush=True); time.sleep(0.05)"))
	if r := c.wait(t); r.Status != "ok" {
		t.Errorf("got %s", r.raw)
	}
	s.run(t, program("1 / 0"))
	s.killPlugin(t)
	outcome{stdout: "1\n"}.check(t, s.run(t, program("print(1)")))
	s.awaitNoBoxes(t)
	s.end(t)
	lines := 0
	for line := range strings.Lines(s.stderr.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("not JSON: %.500q", line)
		}
		lines++
	}
	if lines < 5 {
		t.Errorf("the log has %d lines", lines)
	}
}

// TestOverload: beyond what may run and wait, each call is told when to try once more, at once.
func TestOverload(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{pooled: true, config: "runs: {max_concurrent: 2, max_queued: 4}\nsessions: {max_queued: 2}\n"})
	outcome{stdout: "1\n"}.check(t, s.run(t, program("print(1)"))) // the image is here
	overloaded(t, 60, 6, func(i int) *call {
		return s.send(t, program(fmt.Sprintf("import time; time.sleep(1); print(%d)", i)), nil)
	})
	sandbox := s.open(t, args{})
	overloaded(t, 50, 3, func(i int) *call {
		return s.sendTo(t, "run_python", args{"code": fmt.Sprintf("import time; time.sleep(1); print(%d)", i), "sandbox_id": sandbox}, nil)
	})
	outcome{stdout: "1\n"}.check(t, s.run(t, program("print(1)")))
}

// overloaded makes calls at once, of which so many at least have room: these all succeed, and the others learn that
// there is none.
func overloaded(t *testing.T, n, room int, begin func(i int) *call) {
	t.Helper()
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = begin(i)
	}
	served := 0
	for i, c := range calls {
		switch r := c.wait(t); {
		case !r.isError:
			outcome{stdout: fmt.Sprintf("%d\n", i)}.check(t, r)
			served++
		case r.Error.Type != "exhausted" || r.Error.RetryAfter <= 0 || r.Error.RetryAfter > 600 || r.Error.Hint == "":
			t.Errorf("call %d got %s", i, r.raw)
		}
	}
	if served < room || served == n {
		t.Errorf("of %d calls %d were served, with room for %d", n, served, room)
	}
}
