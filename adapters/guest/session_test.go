package guest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func cell(code string) core.RunSpec {
	spec := python(code)
	spec.Session, spec.Keep = true, true
	return spec
}

// kept is a command in a session's box.
func kept(argv ...string) core.RunSpec {
	spec := command(argv...)
	spec.Keep = true
	return spec
}

// shown are the forms of what an exit shows, as text.
func shown(e core.Exit) string {
	var forms []string
	for _, d := range e.Displays {
		forms = append(forms, fmt.Sprintf("%s:%s", strings.TrimPrefix(d.MIMEType, "text/"), d.Data))
	}
	return strings.Join(forms, "|")
}

// TestSession runs one piece of code after the other in one interpreter.
func TestSession(t *testing.T) { onEach(t, testSession) }

func testSession(t *testing.T, k keeper) {
	g := start(t, pythonImage, k.option()...)
	for _, c := range []struct {
		name, code string
		shown      string
		stdin      []byte
		dir        string
		want       want
	}{
		{name: "assign", code: "import math; x = 6", want: want{}},
		{name: "remember", code: "print(x, math.pi > 3)", want: want{stdout: "6 True\n"}},
		{name: "last expression", code: "y = 1\nx * 7", shown: "plain:42"},
		{name: "underscore", code: "_ + 1", shown: "plain:43"},
		{name: "none", code: "None", want: want{}},
		{name: "none keeps underscore", code: "print(_)", want: want{stdout: "43\n"}},
		{name: "semicolon", code: "x;", want: want{}},
		{name: "semicolon, comment", code: "(x) ; # c\n\n# d", want: want{}},
		{name: "comment", code: "'a;b' # ;", shown: "plain:'a;b'"},
		{name: "text in the middle is not shown", code: "1\n2\nz = 3", want: want{}},
		{name: "two on a line", code: "1; 2", shown: "plain:2"},
		{name: "function", code: "def f(n):\n    if n == 0: raise ValueError('no')\n    return f(n - 1)", want: want{}},
		{name: "traceback", code: "1\nf(0)", want: want{code: 1, stderr: "Traceback (most recent call last):\n  File \"/tmp/.boxwright/cell-13.py\", line 2, in <module>\n    f(0)\n  File \"/tmp/.boxwright/cell-12.py\", line 2, in f\n    if n == 0: raise ValueError('no')\n"}},
		{name: "syntax", code: "a = 1\nb = = 2", want: want{code: 1, stderr: "  File \"/tmp/.boxwright/cell-14.py\", line 2\n    b = = 2\n        ^\nSyntaxError: invalid syntax\n"}},
		{name: "nothing of it ran", code: "'a' in globals()", shown: "plain:False"},
		{name: "return", code: "1/0\nreturn 5", want: want{code: 1, stderr: "SyntaxError: 'return' outside function"}},
		{name: "source", code: "import inspect; print(inspect.getsource(f))", want: want{stdout: "def f(n):\n    if n == 0: raise ValueError('no')\n    return f(n - 1)\n\n"}},
		{name: "exit 2", code: "import sys; sys.exit(2)", want: want{code: 2}},
		{name: "exit()", code: "exit()", want: want{}},
		{name: "quit(3)", code: "quit(3)", want: want{code: 3}},
		{name: "exit text", code: "sys.exit('no')", want: want{code: 1, stderr: "no\n"}},
		{name: "interrupt", code: "raise KeyboardInterrupt", want: want{code: 130, signal: "SIGINT", stderr: "KeyboardInterrupt"}},
		{name: "still there", code: "x", shown: "plain:6"},
		{name: "await", code: "import asyncio\nq = asyncio.Queue()\nawait q.put(5)\nawait q.get()", shown: "plain:5"},
		{name: "await over cells", code: "await q.put(7); t = asyncio.create_task(q.get())", want: want{}},
		{name: "await the task", code: "await t", shown: "plain:7"},
		{name: "asyncio.run", code: "asyncio.run(asyncio.sleep(0, 'r'))", shown: "plain:'r'"},
		{name: "B47 both", code: "asyncio.run(asyncio.sleep(0)); await asyncio.sleep(0); asyncio.run(asyncio.sleep(0)); await asyncio.sleep(0, 1)", shown: "plain:1"},
		{name: "await fails", code: "await asyncio.sleep(0)\n1/0", want: want{code: 1, stderr: "Traceback (most recent call last):\n  File \"/tmp/.boxwright/cell-29.py\", line 2, in <module>\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n"}},
		{name: "future", code: "from __future__ import annotations\n1", shown: "plain:1"},
		{name: "future later", code: "def g(a: nothing): pass\ng.__annotations__", shown: "plain:{'a': 'nothing'}"},
		{name: "html", code: "class H:\n    def __repr__(self): return 'h'\n    def _repr_html_(self): return '<b>h</b>'\nH()", shown: "plain:h|html:<b>h</b>"},
		{name: "display", code: "display(1, H())\nprint('p')\ndisplay('last')\n'x'", shown: "plain:1|plain:h|html:<b>h</b>|plain:'last'|plain:'x'", want: want{stdout: "p\n"}},
		{name: "bundle", code: "class B:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/markdown': '*b*', 'application/json': {'a': 1}, 'x/y': 'z'}, {}\n    def __repr__(self): return 'b'\nB()", shown: "plain:b|markdown:*b*|application/json:{\"a\": 1}"},
		{name: "picture", code: "class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n.'\n    def _repr_svg_(self): return '<svg/>'\n    def __repr__(self): return 'p'\nP()", shown: "plain:p|image/svg+xml:<svg/>|image/png:\x89PNG\r\n\x1a\n."},
		{name: "type is no value", code: "H", shown: "plain:<class '__main__.H'>"},
		{name: "answers to all", code: "class M:\n    def __getattr__(self, n): return lambda *a, **k: n\n    def __repr__(self): return 'm'\nM()", shown: "plain:m"},
		{name: "rich fails", code: "class F:\n    def _repr_html_(self): 1/0\n    def __repr__(self): return 'f'\nF()", shown: "plain:f"},
		{name: "repr fails", code: "class R:\n    def __repr__(self): 1/0\nR()", want: want{code: 1, stderr: "ZeroDivisionError"}},
		{name: "stdin", code: "print(input())", stdin: []byte("hi\nrest"), want: want{stdout: "hi\n"}},
		{name: "B19 no stdin", code: "input()", want: want{code: 1, stderr: "EOFError"}},
		{name: "chdir", code: "import os; os.makedirs('d/e', exist_ok=True); os.chdir('d'); os.getcwd()", shown: "plain:'/work/d'"},
		{name: "chdir stays", code: "os.getcwd()", shown: "plain:'/work/d'"},
		{name: "dir", code: "os.getcwd()", dir: "d/e", shown: "plain:'/work/d/e'"},
		{name: "dir stays", code: "os.getcwd()", shown: "plain:'/work/d/e'"},
		{name: "dir back", code: "os.getcwd()", dir: "/work", shown: "plain:'/work'"},
		{name: "B46 names", code: "import code; open('json.py', 'w').write('1/0'); import pdb, test, json; print(code.InteractiveConsole)", want: want{stdout: "<class 'code.InteractiveConsole'>\n", files: []string{"json.py:3"}}},
		{name: "own module", code: "open('helper.py','w').write('def f(): return 7'); import helper; helper.f()", shown: "plain:7", want: want{files: []string{"helper.py:17"}}},
		{name: "stdout replaced", code: "import io; sys.stdout = io.StringIO(); print('lost')", want: want{}},
		{name: "stdout closed", code: "print('a'); sys.stdout.close()", want: want{stdout: "a\n"}},
		{name: "stdout detached", code: "print('a'); sys.stdout.detach();", want: want{stdout: "a\n"}},
		{name: "stdout is back", code: "print('b')", want: want{stdout: "b\n"}},
		{name: "stdout gone", code: "os.close(1); os.close(0)", want: want{}},
		{name: "stdout gone is back", code: "print('b', end='')", want: want{stdout: "b"}},
		{name: "builtins", code: "import builtins\nfor name in ('open', 'len', 'print', 'getattr', 'isinstance', 'str', 'repr', 'OSError'): setattr(builtins, name, None)", want: want{}},
		{name: "builtins back", code: "print(len('abc'))", want: want{stdout: "3\n"}},
		{name: "C output", code: "import ctypes; ctypes.CDLL(None).printf(b'from C\\n')", shown: "plain:7", want: want{stdout: "from C\n"}},
		{name: "thread", code: "import threading, time\nrunning = True\ndef loop():\n    while running: print('t', flush=True); time.sleep(.01)\nthreading.Thread(target=loop, daemon=True).start(); time.sleep(.05)", want: want{stdout: "*"}},
		{name: "thread goes on", code: "running = False; time.sleep(.1)", want: want{stdout: "*"}},
		{name: "quiet again", code: "print(1)", want: want{stdout: "1\n"}},
		{name: "fork falls out", code: "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')", want: want{stdout: "child\nparent\n"}},
		{name: "fork fails", code: "pid = os.fork()\nif pid: print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))\nelse: sys.exit(9)", want: want{stdout: "9\n"}},
		{name: "one is left", code: "print(x)", want: want{stdout: "6\n"}},
		{name: "pool", code: "import multiprocessing as m\ndef sq(x): return x * x\nwith m.Pool(2) as p: print(p.map(sq, range(4)))", want: want{stdout: "[0, 1, 4, 9]\n"}},
		{name: "executor", code: "from concurrent.futures import ProcessPoolExecutor as E\nwith E(2) as e: print(list(e.map(sq, range(4))))", want: want{stdout: "[0, 1, 4, 9]\n"}},
		{name: "spawn", code: "N = 2\ndef tw(x): return N * sq(x)\nwith m.get_context('spawn').Pool(2) as p: print(p.map(tw, range(4)))", want: want{stdout: "[0, 2, 8, 18]\n"}},
		{name: "spawn of earlier", code: "with m.get_context('spawn').Pool(1) as p: print(p.map(sq, [5]))", want: want{stdout: "[25]\n"}},
		{name: "forkserver", code: "with m.get_context('forkserver').Pool(1) as p: print(p.map(sq, [6]))", want: want{stdout: "[36]\n"}},
		{name: "forkserver later", code: "def cu(x): return sq(x) * x\nwith m.get_context('forkserver').Pool(1) as p: print(p.map(cu, [3]))", want: want{stdout: "[27]\n"}},
		{name: "pickle", code: "import pickle\nclass A: pass\npickle.loads(pickle.dumps(A())).__class__ is A", shown: "plain:True"},
		{name: "subprocess", code: "import subprocess; subprocess.run(['echo', 'out']).returncode", shown: "plain:0", want: want{stdout: "out\n"}},
		{name: "warning", code: "import warnings; warnings.warn('w')", want: want{stderr: "UserWarning: w"}},
		{name: "warning again", code: "warnings.warn('w')", want: want{stderr: "UserWarning: w"}},
		{name: "descriptors", code: "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nall = []\ntry:\n    while True: all.append(os.dup(0))\nexcept OSError: print('full')", want: want{stdout: "full\n"}},
		{name: "none is left", code: "print(len(all) > 20)", want: want{stdout: "True\n"}},
		{name: "none is left still", code: "all[0]; 'x'", shown: "plain:'x'"},
		{name: "some again", code: "for n in all: os.close(n)\nopen('some', 'w').close()", want: want{files: []string{"some:0"}}},
		{name: "many forms", code: "for i in range(70): display(i)", shown: "*"},
		{name: "large form", code: "'x' * 10**7", shown: "*"},
		{name: "workspace is shut", code: "open('shut', 'w').close(); os.chmod('/work', 0)", want: want{files: []string{"shut:0"}}},
		{name: "workspace is open", code: "open('opened', 'w').close()", want: want{files: []string{"opened:0"}}},
		{name: "os is damaged", code: "os.dup2 = os.close = os.write = os.makedirs = os._exit = None", want: want{}},
		{name: "__main__ is damaged", code: "class W(type(sys)):\n    def __getattribute__(s, n): raise SystemExit(2)\nsys.modules['__main__'].__class__ = W", want: want{}},
		{name: "no modules", code: "sys.modules.clear()", want: want{}},
		{name: "remembers all the same", code: "print(x)\nx", shown: "plain:6", want: want{stdout: "6\n"}},
		{name: "fails all the same", code: "1/0", want: want{code: 1, stderr: "Traceback (most recent call last):\n  File \"/tmp/.boxwright/cell-86.py\", line 1, in <module>\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := cell(c.code)
			spec.Stdin, spec.Dir = c.stdin, c.dir
			exit := run(t, g, spec)
			if c.want.stdout == "*" {
				exit.Stdout.Head = []byte("*")
			}
			c.want.check(t, exit)
			if got := shown(exit); got != c.shown && c.shown != "*" {
				t.Errorf("want %q, got %q", c.shown, got)
			}
			if exit.StateLost {
				t.Error("the state is said to be lost")
			}
		})
	}
}

// TestDisplaysAreBounded: what is too much is told.
func TestDisplaysAreBounded(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		exit := run(t, g, cell("for i in range(70): display(i)"))
		if len(exit.Displays) != 64 || len(exit.Warnings) != 1 || !strings.HasPrefix(exit.Warnings[0], "6 displayed values") {
			t.Errorf("%d displays, %q", len(exit.Displays), exit.Warnings)
		}
		exit = run(t, g, cell("'x' * 10**7"))
		if len(exit.Displays) != 1 || len(exit.Displays[0].Data) > 65<<10 || !strings.HasSuffix(string(exit.Displays[0].Data), "characters more)") {
			t.Errorf("%d displays: %s", len(exit.Displays), describe(exit))
		}
		exit = run(t, g, cell("class H:\n    def _repr_html_(self): return 'x' * (1 << 20)\n    def __repr__(self): return 'h'\ndisplay(H(), H(), H())"))
		if len(exit.Displays) != 4 || len(exit.Warnings) != 1 {
			t.Errorf("%d displays, %q", len(exit.Displays), exit.Warnings)
		}
	})
}

// TestStateIsLostOnce: whatever ends the interpreter, the session is told once and goes on with a new one.
func TestStateIsLostOnce(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		b := newBox(t, pythonImage, append(k.option(), "--memory", "256m")...)
		g := connect(t, b)
		for _, c := range []struct {
			name, code string
			want       want
			oom        bool
		}{
			{name: "B53 os._exit", code: "import os; print('a', flush=True); os._exit(1)", want: want{code: 1, stdout: "a\n"}},
			{name: "segfault", code: "import ctypes; ctypes.string_at(0)", want: want{code: 139, signal: "SIGSEGV"}},
			{name: "abort", code: "import os; os.abort()", want: want{code: 134, signal: "SIGABRT"}},
			{name: "killed", code: "import os; os.kill(os.getpid(), 9)", want: want{code: 137, signal: "SIGKILL"}},
			{name: "closes all", code: "import os; os.closerange(3, 1000); print('a')", want: want{stdout: "a\n"}},
			{name: "lies", code: "import os, socket, time\nfor n in range(3, 20):\n    try: socket.socket(fileno=os.dup(n)).send(b'end x 0 0 0')\n    except OSError: pass\ntime.sleep(20)", want: want{code: 137, signal: "SIGKILL"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				want{}.check(t, run(t, g, cell("x = 1")))
				exit := run(t, g, cell(c.code))
				c.want.check(t, exit)
				if !exit.StateLost {
					t.Errorf("nobody was told: %s", describe(exit))
				}
				exit = run(t, g, cell("print('x' in globals())"))
				want{stdout: "False\n"}.check(t, exit)
				if exit.StateLost || len(exit.Warnings) > 0 {
					t.Errorf("told again: %s", describe(exit))
				}
			})
		}
		want{}.check(t, run(t, g, cell("import sys\nn = 1\nwhile n:\n    try: n = sys.setrecursionlimit(n)\n    except RecursionError: n += 1")))
		exit := run(t, g, cell("print('ran')"))
		want{code: 1, stderr: "boxwright: this code was not run"}.check(t, exit)
		if !exit.StateLost {
			t.Errorf("nobody was told of a damaged interpreter: %s", describe(exit))
		}
		want{}.check(t, run(t, g, cell("import subprocess; s = subprocess.Popen(['sh', '-c', 'sleep .1; kill -9 $PPID'])")))
		time.Sleep(500 * time.Millisecond)
		exit = run(t, g, cell("print('s' in globals())"))
		want{stdout: "False\n"}.check(t, exit)
		if !exit.StateLost || len(exit.Warnings) != 1 {
			t.Errorf("nobody was told of an end between two runs: %s", describe(exit))
		}
		exit, err := g.Run(t.Context(), cell("x = bytearray(10**10)"), nil)
		if err != nil {
			if k == runsc && b.diedOfMemory() {
				return
			}
			t.Fatal(err)
		}
		if !exit.OOMKilled || !exit.StateLost {
			t.Errorf("memory: %s", describe(exit))
		}
		exit = run(t, g, cell("1"))
		if shown(exit) != "plain:1" || exit.StateLost {
			t.Error(describe(exit))
		}
	})
}

// TestB44: what one session does to a module is not there in another.
func TestB44(t *testing.T) {
	a, b := start(t, pythonImage), start(t, pythonImage)
	want{}.check(t, run(t, a, cell("import json; json.dumps = None")))
	want{stdout: "1\n"}.check(t, run(t, b, cell("import json; print(json.dumps(1))")))
	want{stdout: "None\n"}.check(t, run(t, a, cell("print(json.dumps)")))
}

// TestB45: many runs in one session, each with its own output.
func TestB45(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, cell("seen = []"))
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				exit, err := g.Run(t.Context(), cell(fmt.Sprintf("print(%d); seen.append(%d)", i, i)), nil)
				if err != nil || string(exit.Stdout.Head) != fmt.Sprintf("%d\n", i) {
					t.Errorf("%d: %v %s", i, err, describe(exit))
				}
			})
		}
		all.Wait()
		want{stdout: "True\n"}.check(t, run(t, g, cell("print(sorted(seen) == list(range(50)))")))
	})
}

// TestVariables: also what fights being looked at.
func TestVariables(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		if got := variables(t, g); len(got) != 0 {
			t.Errorf("before anything: %+v", got)
		}
		run(t, g, cell(`
import os, json
n, text, names, _hidden = 5, 'a\nb' * 100, ['x', 'y'], 1
def f(): pass
class Array:
    shape, nbytes = (3, 4), 96
    def __repr__(self): return 'array'
class Bad:
    def __repr__(self): open('/work/touched', 'w'); 1/0
    shape = property(lambda self: 1/0)
class Liar:
    __class__ = property(lambda self: 1/0)
    def __repr__(self): return 'l' * 10**6
array, bad, liar = Array(), Bad(), Liar()
`))
		got := map[string]core.Variable{}
		for _, v := range variables(t, g) {
			got[v.Name] = v
		}
		for name, want := range map[string]core.Variable{
			"n":     {Name: "n", Type: "int", Size: 28, Value: "5"},
			"names": {Name: "names", Type: "list", Shape: "2", Size: got["names"].Size, Value: "['x', 'y']"},
			"array": {Name: "array", Type: "Array", Shape: "3×4", Size: 96, Value: "array"},
			"bad":   {Name: "bad", Type: "Bad", Value: "(it cannot be shown)"},
		} {
			if got[name] != want {
				t.Errorf("want %+v, got %+v", want, got[name])
			}
		}
		if len(got) != 10 || got["text"].Shape != "300" || len(got["text"].Value) > 80 || got["liar"].Type != "Liar" || len(got["liar"].Value) > 80 {
			t.Errorf("got %+v", got)
		}
		run(t, g, cell("import time\nclass Slow:\n    def __repr__(self):\n        while True:\n            try:\n                while True: time.sleep(.01)\n            except BaseException: pass\nslow = Slow()"))
		for _, v := range variables(t, g) {
			if v.Name == "slow" && v.Type != "Slow" || v.Value != "" {
				t.Errorf("got %+v", v)
			}
		}
		want{stdout: "5\n"}.check(t, run(t, g, cell("print(n)")))
	})
}

func variables(t *testing.T, g execution.Guest) []core.Variable {
	t.Helper()
	got, err := g.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestVariablesOfABusyInterpreter: one that cannot answer keeps what it remembers.
func TestVariablesOfABusyInterpreter(t *testing.T) {
	require(t, pythonImage)
	g := start(t, pythonImage)
	run(t, g, cell(`import ctypes, os, threading, time
x = 1
sleep = ctypes.PyDLL(None).sleep  # lets no other thread in meanwhile
def work():
    while not os.path.exists('/tmp/go'): time.sleep(.01)
    open('/tmp/gone', 'w').close()
    sleep(10)
threading.Thread(target=work).start()`))
	run(t, g, kept("sh", "-c", "touch /tmp/go; until [ -e /tmp/gone ]; do sleep .01; done"))
	for begun := time.Now(); ; { // it may answer once more before it is held
		_, err := g.Variables(t.Context())
		if core.KindOf(err) == core.ErrUnavailable {
			break
		}
		if err != nil || time.Since(begun) > 10*time.Second {
			t.Fatalf("got %v, want unavailable", err)
		}
	}
	want{stdout: "1\n"}.check(t, run(t, g, cell("print(x)")))
	if variables, err := g.Variables(t.Context()); err != nil || len(variables) == 0 {
		t.Errorf("got %v, %v, want variables", variables, err)
	}
}
