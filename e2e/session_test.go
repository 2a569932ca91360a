package e2e

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cell runs code in a sandbox; "" is the client's own.
func (s *server) cell(t *testing.T, sandbox, code string, more ...any) result {
	t.Helper()
	a := program(code, more...)
	if sandbox != "" {
		a["sandbox_id"] = sandbox
	}
	return s.use(t, "run_python", a)
}

// open makes a sandbox and returns its id.
func (s *server) open(t *testing.T, a args) string {
	t.Helper()
	r := s.use(t, "sandbox_initialize", a)
	if r.isError || r.SandboxID == "" {
		t.Fatalf("no sandbox: %s", r.raw)
	}
	return r.SandboxID
}

// shows is a cell that succeeded and showed this value.
func (r result) shows(t *testing.T, value string) {
	t.Helper()
	if r.isError || r.Status != "ok" || r.Result != value {
		t.Errorf("got %.3000s; want the value %q", r.raw, value)
	}
}

// warns reports whether a warning holds the words.
func (r result) warns(words string) bool {
	return strings.Contains(strings.Join(r.Warnings, "\n"), words)
}

const stateLost = "variables and imports are gone"

// TestSessions plays the cases of a sandbox that stays, each in one of its own.
func TestSessions(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{pooled: true})
	for name, play := range map[string]func(t *testing.T, s *server, sandbox string){
		"variables stay":                  variablesStay,
		"B44 sandboxes are apart":         sandboxesApart,
		"B45 many calls at once":          manyCells,
		"B47 await":                       awaitInCells,
		"B53 the interpreter dies":        interpreterDies,
		"B25 B32 stopped, not forgotten":  stoppedCells,
		"B39 B21 shells":                  shells,
		"bash keeps its state":            bashSession,
		"files of one call":               cellFiles,
		"inspect":                         inspected,
		"ended by its owner":              endedByOwner,
		"B51 its box is removed":          boxRemoved,
		"B27 a stopped process":           stoppedShell,
		"B30 one rule for the time limit": sessionTimeLimits,
		"B31 others are answered":         otherSandboxes,
		"B40 out of memory":               sandboxOutOfMemory,
		"B55 names":                       sandboxNames,
		"B57 await in JavaScript":         awaitInJavaScript,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, s, s.open(t, args{}))
		})
	}
}

func variablesStay(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "import json\nx = 20\ndef f(): return x + 1\nf()").shows(t, "21")
	s.cell(t, sandbox, "json.dumps([f(), _])").shows(t, "'[21, 21]'")
	s.cell(t, sandbox, "x;").shows(t, "")
	s.cell(t, sandbox, "None").shows(t, "")
	r := s.cell(t, sandbox, "print('seen')\n1 / 0")
	outcome{status: "failed", exit: 1, stdout: "seen\n", stderr: "ZeroDivisionError"}.check(t, r)
	outcome{status: "failed", exit: 3}.check(t, s.cell(t, sandbox, "x += 1; import sys; sys.exit(3)"))
	outcome{}.check(t, s.cell(t, sandbox, "exit()")) // B53
	s.cell(t, sandbox, "x").shows(t, "21")
	r = s.cell(t, sandbox, "class Table:\n    def _repr_html_(self): return '<b>t</b>'\n    def __repr__(self): return 'a table'\nTable()")
	r.shows(t, "a table")
	if content := s.read(t, r.file(t, "result.html").URI); string(content) != "<b>t</b>" {
		t.Errorf("the rich form is %q", content)
	}
}

func sandboxesApart(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "import json; json.dumps = None; open('/tmp/x', 'w').close()")
	other := s.open(t, args{"name": "B44 ж"})
	s.cell(t, other, "import json, os; json.dumps(os.path.exists('/tmp/x'))").shows(t, "'false'")
	s.cell(t, "B44 ж", "1").shows(t, "1")
	if again := s.use(t, "sandbox_initialize", args{"name": "B44 ж"}); again.Error.Type != "invalid" {
		t.Errorf("a name was given twice: %s", again.raw)
	}
}

// manyCells: each call gets its own output, one after the other in the order in which they came.
func manyCells(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "n = 0")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := s.cell(t, sandbox, fmt.Sprintf("n += 1\nprint(%d)\nn", i))
			if r.Stdout != fmt.Sprintf("%d\n", i) || r.Result == "" {
				t.Errorf("call %d got %.500s", i, r.raw)
			}
		})
	}
	all.Wait()
	s.cell(t, sandbox, "n").shows(t, "50")
}

func awaitInCells(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "import asyncio\nqueue = asyncio.Queue()\nasync def put(): await asyncio.sleep(0.05); await queue.put(7)\ntask = asyncio.create_task(put())\nawait asyncio.sleep(0)")
	s.cell(t, sandbox, "await queue.get()").shows(t, "7")
	s.cell(t, sandbox, "asyncio.run(asyncio.sleep(0, 'run'))").shows(t, "'run'")
}

func interpreterDies(t *testing.T, s *server, sandbox string) {
	for code, signal := range map[string]string{
		"import os; os._exit(7)":                     "",
		"import ctypes; ctypes.string_at(0)":         "SIGSEGV",
		"import os, signal; os.kill(os.getpid(), 9)": "SIGKILL",
	} {
		s.cell(t, sandbox, "x = 1; open('kept', 'w').write('f')")
		r := s.cell(t, sandbox, code)
		if r.isError || r.Status != "failed" || r.Signal != signal || !r.warns(stateLost) {
			t.Errorf("%s: got %.2000s", code, r.raw)
		}
		r = s.cell(t, sandbox, "import os; ('x' in globals(), os.path.exists('kept'))")
		if r.shows(t, "(False, True)"); r.warns(stateLost) {
			t.Errorf("%s: it was told twice: %q", code, r.Warnings)
		}
	}
}

// stoppedCells: a time limit and a client's cancel end the tree, and leave the variables.
func stoppedCells(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "x = 5")
	hide := "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 987 & setsid sleep 987 & kill -STOP $$'], start_new_session=True)\n"
	r := s.cell(t, sandbox, hide+"print('a', end='')\nwhile True: pass", "timeout_seconds", 3)
	if r.Status != "timed_out" || r.Stdout != "a" {
		t.Errorf("got %s", r.raw)
	}
	c := s.sendTo(t, "run_python", args{"code": hide + "import time; time.sleep(600)", "sandbox_id": sandbox, "timeout_seconds": 600}, nil)
	time.Sleep(time.Second)
	c.cancel()
	<-c.done
	ps := "[open(f'/proc/{p}/cmdline').read() for p in __import__('os').listdir('/proc') if p.isdigit() and '987' in open(f'/proc/{p}/cmdline').read()]"
	s.cell(t, sandbox, ps).shows(t, "[]")
	s.cell(t, sandbox, "x").shows(t, "5")
	r = s.cell(t, sandbox, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "timeout_seconds", 2)
	if r.Status != "timed_out" || !r.warns(stateLost) {
		t.Errorf("one that does not let itself be interrupted: %.2000s", r.raw)
	}
	s.cell(t, sandbox, "'x' in globals()").shows(t, "False")
}

func shells(t *testing.T, s *server, sandbox string) {
	sh := func(command string, more ...any) result {
		a := program("", more...)
		delete(a, "code")
		a["command"], a["sandbox_id"] = command, sandbox
		return s.use(t, "sandbox_exec", a)
	}
	outcome{stdout: "hi\n", files: []string{"f"}}.check(t, sh("cat <<'X' > f\nhi\nX\ncat f"))
	outcome{stdout: "a \"b\"\n/work\n", any: true}.check(t, sh(`printf '%s\n' "$CFG" | cat; pwd`, "env", map[string]string{"CFG": `a "b"`}))
	outcome{}.check(t, sh("mkdir sub"))
	outcome{stdout: "/work/sub\nin", any: true}.check(t, sh("pwd; cat", "cwd", "sub", "stdin", "in", "timeout_seconds", 5))
	outcome{status: "failed", exit: 3}.check(t, sh("exit 3"))
	outcome{stdout: "ok\n", any: true}.check(t, sh("cat & sleep 0.2; echo ok"))
	outcome{stdout: "ok\n", any: true}.check(t, sh("sleep 300 & nohup sleep 300 >/dev/null 2>&1 & echo ok"))
	outcome{stdout: "2\n"}.check(t, sh(`sleep 2; for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done | grep -c '^sleep 300'`))
}

func bashSession(t *testing.T, s *server, sandbox string) {
	bash := func(code string) result {
		return s.use(t, "run_code", args{"language": "bash", "code": code, "sandbox_id": sandbox})
	}
	outcome{}.check(t, bash("a='x  y'; declare -A m=([k]=v); f() { echo \"f $a ${m[k]}\"; }; mkdir d; cd d; set -u; shopt -s extglob"))
	outcome{stdout: "f x  y v\n/work/d\n"}.check(t, bash("f; pwd"))
	outcome{status: "failed", exit: 4}.check(t, bash("a=z; exit 4"))
	outcome{stdout: "z\n"}.check(t, bash("echo $a"))
	outcome{status: "failed", exit: 127, stderr: "unbound"}.check(t, bash("echo $nothing"))
}

// cellFiles: files that are sent are there, and what comes back is what this call has changed.
func cellFiles(t *testing.T, s *server, sandbox string) {
	r := s.cell(t, sandbox, "open('out', 'w').write(open('in/a').read() * 2);", "files", []any{map[string]any{"path": "in/a", "content": "é"}})
	outcome{files: []string{"out"}}.check(t, r)
	outcome{stdout: "éé\n"}.check(t, s.cell(t, sandbox, "print(open('out').read())"))
}

func inspected(t *testing.T, s *server, sandbox string) {
	s.cell(t, sandbox, "import math\nn = [1, 2, 3]\nclass Odd:\n    def __repr__(self): raise SystemExit\nodd = Odd()\n_hidden = 1")
	r := s.use(t, "sandbox_inspect", args{"sandbox_id": sandbox})
	holds(t, r.text, "n: list", "[1, 2, 3]", "odd: Odd")
	if strings.Contains(r.text, "_hidden") || strings.Contains(r.text, "math") {
		t.Errorf("it lists what is none of the code's variables: %s", r.text)
	}
}

func endedByOwner(t *testing.T, s *server, sandbox string) {
	for _, unknown := range []string{"no-such", strings.Repeat("x", 300), "../../etc", "ж"} {
		if r := s.use(t, "sandbox_stop", args{"sandbox_id": unknown}); r.Error.Type != "not_found" {
			t.Errorf("%.20q: %s", unknown, r.raw)
		}
	}
	for _, name := range []string{"a\nb", strings.Repeat("n", 200)} {
		if r := s.use(t, "sandbox_initialize", args{"name": name}); r.Error.Type != "invalid" {
			t.Errorf("%.20q: %s", name, r.raw)
		}
	}
	c := s.sendTo(t, "run_python", args{"code": "import time; time.sleep(100)", "container_id": sandbox, "timeout_seconds": 100}, nil)
	time.Sleep(500 * time.Millisecond)
	if r := s.use(t, "sandbox_stop", args{"container_id": sandbox}); r.isError {
		t.Errorf("got %s", r.raw)
	}
	<-c.done
	if r := s.cell(t, sandbox, "1"); r.Error.Type != "not_found" {
		t.Errorf("after its end: %s", r.raw)
	}
}

func boxRemoved(t *testing.T, _ *server, _ string) {
	s := serve(t, setup{})
	own := s.cell(t, "", "x = 1; x")
	own.shows(t, "1")
	here().engine.removeBox(t, s.awaitBox(t, "session"))
	r := s.cell(t, "", "x")
	if r.Error.Type != "session_expired" || r.Error.Hint == "" {
		t.Errorf("got %s", r.raw)
	}
	outcome{status: "failed", exit: 1, stderr: "NameError", any: true}.check(t, s.cell(t, "", "x"))
	if r := s.cell(t, own.SandboxID, "x"); r.Error.Type != "session_expired" {
		t.Errorf("by its id: %s", r.raw)
	}
}

// TestIdleSession: one that is used is not idle, however long a call takes; one that is not used ends.
func TestIdleSession(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	sandbox := s.open(t, args{"idle_timeout_seconds": 2})
	s.cell(t, sandbox, "import time; time.sleep(5); 'awake'").shows(t, "'awake'")
	s.cell(t, sandbox, "1").shows(t, "1")
	time.Sleep(3 * time.Second)
	r := s.cell(t, sandbox, "1")
	if r.Error.Type != "session_expired" {
		t.Errorf("got %s", r.raw)
	}
	holds(t, r.text, "had not been used for 2s", "sandbox_initialize")
	s.awaitNoBoxes(t)
}

// TestOwnSession: the first two calls of a client make one sandbox, and its end is that of its client.
func TestOwnSession(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	state := newState(t)
	s := serve(t, setup{state: state})
	one := s.sendTo(t, "run_python", args{"code": "x = 1"}, nil)
	two := s.sendTo(t, "sandbox_exec", args{"command": "true"}, nil)
	if a, b := one.wait(t), two.wait(t); a.SandboxID == "" || a.SandboxID != b.SandboxID {
		t.Errorf("the calls ran in %q and %q", a.SandboxID, b.SandboxID)
	}
	s.cell(t, "", "x").shows(t, "1")
	other := serve(t, setup{state: state})
	other.cell(t, "", "'x' in globals()").shows(t, "False")
	s.end(t)
	eventually(t, 20*time.Second, func() (bool, string) {
		left := state.boxes(t)
		return len(left) == 1, fmt.Sprintf("%d boxes", len(left))
	})
	other.cell(t, "", "'x' in globals()").shows(t, "False")
}

// TestSessionSurvives: the server is killed, and its plugin; the sandbox lives on.
func TestSessionSurvives(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	s := serve(t, setup{pooled: true, state: state})
	sandbox := s.open(t, args{"name": "kept"})
	s.cell(t, sandbox, "x = 41").shows(t, "")
	s.killPlugin(t)
	s.cell(t, sandbox, "x += 1; x").shows(t, "42")
	s.signal(t, syscall.SIGKILL)
	s.awaitExit(t)

	s = serve(t, setup{pooled: true, state: state})
	s.cell(t, sandbox, "x").shows(t, "42")
	s.cell(t, "kept", "x").shows(t, "42")
	s.end(t)
	state.awaitNoBoxes(t)
}

// TestSessionsKept: an operator may have sessions outlive a server that ends as it should.
func TestSessionsKept(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	state := newState(t)
	s := serve(t, setup{state: state, config: "sessions: {keep_on_exit: true}\n"})
	s.cell(t, s.open(t, args{"name": "kept"}), "x = 42")
	s.end(t)
	s = serve(t, setup{state: state})
	s.cell(t, "kept", "x").shows(t, "42")
}
