package guest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func limits() core.OutputLimits {
	return core.OutputLimits{Head: 64 << 10, Tail: 64 << 10, Spill: 32 << 20}
}

func python(code string) core.RunSpec {
	return core.RunSpec{ID: rand.Text(), Code: []byte(code), Timeout: 30 * time.Second, Output: limits()}
}

func command(argv ...string) core.RunSpec {
	return core.RunSpec{ID: rand.Text(), Argv: argv, Timeout: 30 * time.Second, Output: limits()}
}

func run(tb testing.TB, g execution.Guest, spec core.RunSpec) core.Exit {
	tb.Helper()
	exit, err := g.Run(tb.Context(), spec, nil)
	if err != nil {
		tb.Fatalf("Run: %v", err)
	}
	return exit
}

func describe(e core.Exit) string {
	return fmt.Sprintf("status %s, code %d %s\nstdout %d: %.2000q\nstderr %d: %.4000s\nfiles %v\nwarnings %q",
		core.StatusOf(e), e.Code, e.Signal, e.Stdout.Total, e.Stdout.Head, e.Stderr.Total, e.Stderr.Head, e.Files, e.Warnings)
}

// want is what a run shall have ended with. Warnings are checked where a case is about them.
type want struct {
	code   int
	stdout string
	stderr string   // contained in it; "" is: nothing at all
	files  []string // "name:size"
	signal string
}

func (w want) check(t *testing.T, e core.Exit) {
	t.Helper()
	var files []string
	for _, f := range e.Files {
		files = append(files, fmt.Sprintf("%s:%d", f.Path, f.Size))
	}
	stderr := string(e.Stderr.Head)
	if e.Code != w.code || e.Signal != w.signal || string(e.Stdout.Head) != w.stdout ||
		!strings.Contains(stderr, w.stderr) || w.stderr == "" && stderr != "" ||
		strings.Join(files, "\n") != strings.Join(w.files, "\n") {
		t.Errorf("want %+v, got %s", w, describe(e))
	}
	if strings.Contains(stderr, "<boxwright>") {
		t.Errorf("a frame of ours is in the traceback:\n%s", stderr)
	}
}

// TestPython runs one program after another in one box.
func TestPython(t *testing.T) { onEachKernel(t, testPython) }

func testPython(t *testing.T, k keeper) {
	g := start(t, pythonImage, k.option()...)
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, code string
		stdin      []byte
		env        map[string]string
		want       want
	}{
		{name: "hello", code: "print('Hello, World')", want: want{stdout: "Hello, World\n"}},
		{name: "B01 bytes", code: `import sys; sys.stdout.buffer.write(b'\xff\xfe ok\n')`, want: want{stdout: "\xff\xfe ok\n"}},
		{name: "B02 exit code", code: "import sys; sys.exit(3)", want: want{code: 3}},
		{name: "exit message", code: "import sys; sys.exit('no')", want: want{code: 1, stderr: "no\n"}},
		{name: "exit beyond a long", code: "import sys; sys.exit(2**63)", want: want{code: 255}},
		{name: "exit none", code: "import sys; sys.exit()", want: want{}},
		{name: "exit big", code: "import sys; sys.exit(257)", want: want{code: 1}},
		{name: "exit function", code: "exit(4)", want: want{code: 4}},
		{name: "os._exit", code: "import os; print('a', flush=True); os._exit(5)", want: want{code: 5, stdout: "a\n"}},
		{name: "B03 escapes", code: `print("a<b && c>d & e")`, want: want{stdout: "a<b && c>d & e\n"}},
		{name: "B05 heredoc words", code: "a = '''\nEOL\nEOF\n'''\nprint(1)", want: want{stdout: "1\n"}},
		{name: "B06 blank lines", code: "print()\nprint('\\n')", want: want{stdout: "\n\n\n"}},
		{name: "B07 unicode", code: `print('C:\\Users\\x\\new'); print('😀 ж 漢 \u202e')`, want: want{stdout: "C:\\Users\\x\\new\n😀 ж 漢 \u202e\n"}},
		{name: "lone surrogate", code: `print('\udcff'); print(ascii(input()))`, stdin: []byte("\xff\n"), want: want{stdout: "\\udcff\n'\\udcff'\n"}},
		{name: "B09 1 MB", code: "x = '" + long + "'\nprint(len(x))", want: want{stdout: "1048576\n"}},
		{name: "B09 10 MB", code: "x = '" + strings.Repeat(long, 10) + "'\nprint(len(x))", want: want{stdout: "10485760\n"}},
		{name: "B10 env", code: "import os; print(os.environ['CFG'])", env: map[string]string{"CFG": `{"a":"b c"}`}, want: want{stdout: "{\"a\":\"b c\"}\n"}},
		{name: "B11 BOM and CRLF", code: "\ufeffprint(1)\r\nif 1:\r\n\tprint(2)", want: want{stdout: "1\n2\n"}},
		{name: "coding cookie", code: "# -*- coding: latin-1 -*-\nprint('\xe9')", want: want{stdout: "é\n"}},
		{name: "future", code: "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)", want: want{stdout: "{'x': 'nothing'}\n"}},
		{name: "B18 warning", code: "import warnings; warnings.warn('w'); print(1)", want: want{stdout: "1\n", stderr: "main.py:1: UserWarning: w"}},
		{name: "B19 no stdin", code: "print(input())", want: want{code: 1, stderr: "EOFError"}},
		{name: "B19 stdin", code: "print(input())", stdin: []byte("hi\n"), want: want{stdout: "hi\n"}},
		{name: "stdin not read", code: "print(1)", stdin: bytes.Repeat([]byte("y\n"), 1<<20), want: want{stdout: "1\n"}},
		{name: "stdin 4 MB", code: "import sys; print(len(sys.stdin.buffer.read()))", stdin: bytes.Repeat([]byte("y"), 4<<20), want: want{stdout: "4194304\n"}},
		{name: "B24 nothing", code: "x = 1", want: want{}},
		{name: "B46 code.py", code: "open('code.py','w').write('1/0'); open('json.py','w').write('1/0'); open('random.py', 'w').write('1/0')", want: want{files: []string{"code.py:3", "json.py:3", "random.py:3"}}},
		{name: "B46 stdlib", code: "import code, json, random; print(code.InteractiveConsole); import pdb, test", want: want{stdout: "<class 'code.InteractiveConsole'>\n"}},
		{name: "own module", code: "open('helper.py','w').write('def f(): return 7')\nimport helper; print(helper.f())", want: want{stdout: "7\n", files: []string{"helper.py:17"}}},
		{name: "own module later", code: "import helper; print(helper.f())", want: want{stdout: "7\n"}},
		{name: "B47 asyncio.run", code: "import asyncio; asyncio.run(asyncio.sleep(0)); print(1)", want: want{stdout: "1\n"}},
		{name: "B47 await", code: "import asyncio\nawait asyncio.sleep(0)\nprint(1)\nasync with asyncio.Lock(): print(2)", want: want{stdout: "1\n2\n"}},
		{name: "await fails", code: "import asyncio\nawait asyncio.sleep(0)\n1/0", want: want{code: 1, stderr: "Traceback (most recent call last):\n  File \"/tmp/.boxwright/main.py\", line 3, in <module>\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n"}},
		{name: "main", code: "import sys; print(__name__, sys.modules['__main__'].__dict__ is globals(), __file__, sys.argv)", want: want{stdout: "__main__ True /tmp/.boxwright/main.py ['/tmp/.boxwright/main.py']\n"}},
		{name: "traceback", code: "def f():\n    raise ValueError('no')\nf()", want: want{code: 1, stderr: "Traceback (most recent call last):\n  File \"/tmp/.boxwright/main.py\", line 3, in <module>\n    f()\n  File \"/tmp/.boxwright/main.py\", line 2, in f\n    raise ValueError('no')\nValueError: no\n"}},
		{name: "chained", code: "try:\n    1/0\nexcept Exception as e:\n    raise KeyError('x') from e", want: want{code: 1, stderr: "The above exception was the direct cause"}},
		{name: "syntax error", code: "print(1)\nx = = 2", want: want{code: 1, stderr: "  File \"/tmp/.boxwright/main.py\", line 2\n    x = = 2\n        ^\nSyntaxError: invalid syntax\n"}},
		{name: "excepthook", code: "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1/0", want: want{code: 1, stdout: "hook ZeroDivisionError\n"}},
		{name: "interrupt", code: "raise KeyboardInterrupt", want: want{code: 130, signal: "SIGINT", stderr: "KeyboardInterrupt"}},
		{name: "recursion", code: "def again(x): again(x + 1)\nagain(0)", want: want{code: 1, stderr: "RecursionError"}},
		{name: "getsource", code: "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))", want: want{stdout: "def f():\n    return 1\n\n"}},
		{name: "atexit", code: "import atexit; atexit.register(print, 'bye'); print('hi')", want: want{stdout: "hi\nbye\n"}},
		{name: "atexit after error", code: "import atexit; atexit.register(print, 'bye'); 1/0", want: want{code: 1, stdout: "bye\n", stderr: "ZeroDivisionError"}},
		{name: "threads are joined", code: "import threading, time\ndef f():\n    time.sleep(.1); print('late')\nthreading.Thread(target=f).start()", want: want{stdout: "late\n"}},
		{name: "open file is flushed", code: "f = open('unclosed', 'w'); f.write('data')", want: want{files: []string{"unclosed:4"}}},
		{name: "destructor", code: "class A:\n    def __del__(self): print('gone')\na = A()", want: want{stdout: "gone\n"}},
		{name: "cycle is destroyed", code: "class A:\n    def __del__(self): print('gone')\na = A(); a.a = a", want: want{stdout: "gone\n"}},
		{name: "module is destroyed", code: "open('holder.py', 'w').write('f = None')\nimport holder; holder.f = open('held', 'w'); holder.f.write('data')", want: want{files: []string{"held:4", "holder.py:8"}}},
		{name: "C output", code: "import ctypes; ctypes.CDLL(None).printf(b'from C\\n')", want: want{stdout: "from C\n"}},
		{name: "daemon thread", code: "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start(); print(1)", want: want{stdout: "1\n"}},
		{name: "closed stdout", code: "import sys; print(1); sys.stdout.close()", want: want{stdout: "1\n"}},
		{name: "stdout is gone", code: "import sys, os; sys.stdout.write('x'); os.close(1)", want: want{code: 120, stderr: "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\nOSError: [Errno 9] Bad file descriptor\n"}},
		{name: "atexit fails", code: "import atexit; atexit.register(lambda: 1/0); atexit.register(print, 'bye')", want: want{stdout: "bye\n", stderr: "ZeroDivisionError"}},
		{name: "pool", code: "from concurrent.futures import ThreadPoolExecutor as T\nT().submit(lambda: print('done'))", want: want{stdout: "done\n"}},
		{name: "exit in thread", code: "import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join(); print(1)", want: want{stdout: "1\n"}},
		{name: "temporary folder", code: "import tempfile, os, atexit\nt = tempfile.TemporaryDirectory(); open(t.name + '/x', 'w').close()", want: want{}},
		{name: "multiprocessing spawn", code: "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(f, range(4)))", want: want{stdout: "[0, 1, 4, 9]\n"}},
		{name: "multiprocessing fork", code: "import multiprocessing as m\ndef f(x): return x * x\nwith m.get_context('fork').Pool(2) as p: print(p.map(f, range(4)))", want: want{stdout: "[0, 1, 4, 9]\n"}},
		{name: "subprocess", code: "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(input())'], input='x', text=True, capture_output=True).stdout)", want: want{stdout: "x\n\n"}},
		{name: "pickle", code: "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", want: want{stdout: "True\n"}},
		{name: "B43 environment", code: "import os; print(os.getcwd(), os.environ['HOME'], os.environ['TMPDIR'], os.environ['MPLBACKEND'], os.getuid(), os.getsid(0) == os.getpid())", want: want{stdout: "/work /home/box /tmp Agg 1000 True\n"}},
		{name: "descriptors", code: "import os; print(sorted(os.listdir('/proc/self/fd')))", want: want{stdout: "['0', '1', '2', '3']\n"}},
		{name: "oom score", code: "print(open('/proc/self/oom_score_adj').read())", want: want{stdout: "1000\n\n"}},
		{name: "core size", code: "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))", want: want{stdout: "(0, 0)\n"}},
		{name: "signals", code: "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []), sep=',')", want: want{stdout: "True,True,True,set()\n"}},
		{name: "SIGSEGV", code: "import ctypes; ctypes.string_at(0)", want: want{code: 139, signal: "SIGSEGV"}},
		{name: "B87 time zone", code: "import zoneinfo; print(zoneinfo.ZoneInfo('Asia/Tokyo'))", want: want{stdout: "Asia/Tokyo\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := python(c.code)
			spec.Stdin, spec.Env = c.stdin, c.env
			exit := run(t, g, spec)
			c.want.check(t, exit)
			if len(exit.Warnings) > 0 {
				t.Errorf("warnings: %q", exit.Warnings)
			}
		})
	}
}

func TestOutputIsCutButNotTheRun(t *testing.T) {
	g := start(t, pythonImage)
	spec := python("for i in range(10**6): print(i)")
	exit := run(t, g, spec)
	if exit.Code != 0 || exit.Stdout.Total != 6888890 || exit.Stdout.Cut() <= 0 ||
		!bytes.HasPrefix(exit.Stdout.Head, []byte("0\n1\n2\n")) || !bytes.HasSuffix(exit.Stdout.Tail, []byte("\n999999\n")) {
		t.Error(describe(exit))
	}
	var all bytes.Buffer
	n, err := g.ReadOutput(t.Context(), spec.ID, core.Stdout, &all, 64<<20)
	if err != nil || n != exit.Stdout.Total || bytes.Count(all.Bytes(), []byte("\n")) != 1000000 {
		t.Errorf("read back %d bytes, %v", n, err)
	}
}

func TestSpilledBytesAreExact(t *testing.T) {
	g := start(t, pythonImage)
	spec := python("import sys; sys.stdout.buffer.write(bytes(range(256))*16384); sys.stderr.buffer.write(b'e'*200000)")
	exit := run(t, g, spec)
	var all bytes.Buffer
	if _, err := g.ReadOutput(t.Context(), spec.ID, core.Stdout, &all, 3<<20); err != nil || all.Len() != 3<<20 {
		t.Errorf("read back %d, %v", all.Len(), err)
	}
	whole := make([]byte, 256)
	for i := range whole {
		whole[i] = byte(i)
	}
	if !bytes.Equal(all.Bytes(), bytes.Repeat(whole, 3<<20/256)) || exit.Stderr.Spilled != 200000 {
		t.Error("not what was written")
	}
	if _, err := g.ReadOutput(t.Context(), "unknown", core.Stdout, &all, 10); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

func TestB15EndlessOutput(t *testing.T) {
	g := start(t, busyboxImage)
	spec := command("yes")
	spec.Timeout, spec.Output.Spill, spec.Stream = time.Second, 1<<20, true
	var most int
	exit, err := g.Run(t.Context(), spec, func(_ core.Stream, data []byte) { most = max(most, len(data)) })
	if err != nil || !exit.TimedOut || exit.Stdout.Total < 10<<20 || exit.Stdout.Spilled != 1<<20 || most == 0 || most > 64<<10 {
		t.Errorf("%v, at most %d at once, %d spilled, %d in all", err, most, exit.Stdout.Spilled, exit.Stdout.Total)
	}
}

func TestTimeout(t *testing.T) { onEachKernel(t, testTimeout) }

func testTimeout(t *testing.T, k keeper) {
	g := start(t, pythonImage, append(k.option(), "--memory", "1g")...) // copies of Python share little in gVisor
	for name, code := range map[string]string{
		"B12 flushed":   "print('a'); import time; time.sleep(99)",
		"B12 unflushed": "print('a', end='\\n'); import sys; sys.stdout = open(1, 'w', 4096, closefd=False); print('b', end='')\nimport time; time.sleep(99)",
		"B12 no end":    "print('a'); print('b', end=''); import time; time.sleep(99)",
		"B25 loop":      "print('a')\nwhile True: pass",
		"B27 stopped":   "import os; print('a'); os.kill(0, 19)",
		"B27 all stop":  "import os; print('a'); os.kill(-1, 19); os.kill(0, 19)",
		"ignores":       "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except Exception: pass\nprint('a')\nwhile True: time.sleep(1)",
		"children":      "import os, time\nprint('a')\nfor i in range(5):\n    if os.fork() == 0:\n        os.setsid(); os.fork()\n        while True: time.sleep(1)\nwhile True: time.sleep(1)",
		"B37 fork bomb": "import os\nprint('a')\nwhile True:\n    try: os.fork()\n    except OSError: pass",
	} {
		t.Run(name, func(t *testing.T) {
			spec := python(code)
			spec.Timeout = time.Second
			exit := run(t, g, spec)
			if !exit.TimedOut || !strings.HasPrefix(string(exit.Stdout.Head), "a\n") || exit.Duration > 10*time.Second {
				t.Error(describe(exit))
			}
			if strings.HasSuffix(code, "end=''); import time; time.sleep(99)") && string(exit.Stdout.Head) != "a\nb" {
				t.Errorf("the unfinished line is lost: %s", describe(exit))
			}
			nothingLeft(t, g)
		})
	}
}

// nothingLeft fails if the box holds any process besides the agent, the interpreter that waits, the
// stream and the one that looks.
func nothingLeft(t *testing.T, g execution.Guest) {
	t.Helper()
	exit := run(t, g, python(`
import os
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) not in (1, os.getpid()):
        try:
            args = open(f'/proc/{pid}/cmdline').read().split('\0')
            status = open(f'/proc/{pid}/status').read()
            gone = args == ['']  # its memory is given back already: a zombie, or about to be one
            if not gone and '/proc/self/fd/3' not in args and 'dial' not in args: print(pid, args, status)
        except OSError: pass
`))
	if exit.Code != 0 || exit.Stdout.Total != 0 {
		t.Errorf("left behind: %s", describe(exit))
	}
}

func TestWhatStaysBehindIsKilled(t *testing.T) { onEachKernel(t, testWhatStaysBehindIsKilled) }

func testWhatStaysBehindIsKilled(t *testing.T, k keeper) {
	g := start(t, pythonImage, k.option()...)
	for name, spec := range map[string]core.RunSpec{
		"B39 nohup":      command("sh", "-c", "nohup sleep 300 >/dev/null 2>&1 & echo ok"),
		"holds the pipe": command("sh", "-c", "sleep 300 & echo ok"),
		"daemon":         python("import os, time\nprint('ok')\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(300)\n    os._exit(0)"),
		"stopped child":  command("sh", "-c", "sleep 300 & kill -STOP $!; echo ok"),
		"hops":           python("import os, time\nprint('ok', flush=True)\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        if os.fork(): os._exit(0)\n        time.sleep(.001)"),
	} {
		t.Run(name, func(t *testing.T) {
			exit := run(t, g, spec)
			if exit.Code != 0 || string(exit.Stdout.Head) != "ok\n" || exit.Duration > 10*time.Second {
				t.Error(describe(exit))
			}
			hungUp := k == runsc && name == "stopped child" // gVisor ends a stopped process whose leader has ended
			if name != "hops" && !hungUp && len(exit.Warnings) == 0 {
				t.Errorf("nobody was told: %s", describe(exit))
			}
			nothingLeft(t, g)
		})
	}
}

func TestAgentIsOutOfReach(t *testing.T) { onEachKernel(t, testAgentIsOutOfReach) }

func testAgentIsOutOfReach(t *testing.T, k keeper) {
	g := start(t, pythonImage, k.option()...)
	for name, code := range map[string]string{
		"signals": "import os\nfor s in range(1, 65):\n    try: os.kill(1, s)\n    except Exception as e: print(e)\nprint('done')",
		"threads": "import ctypes, os\nlibc = ctypes.CDLL(None)\nfor t in os.listdir('/proc/1/task'):\n    os.kill(int(t), 0) if int(t) > 99 else [libc.syscall(200, int(t), 9), libc.syscall(234, 1, int(t), 9), libc.kill(int(t), 9)]\nprint('done')",
		"connect": "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0boxwright-agent')\ns.settimeout(5)\ntry: print(s.recv(10))\nexcept ConnectionError: pass\nprint('done')",
		"memory":  "for n in ('mem', 'environ', 'maps', 'fd/0'):\n    try: open('/proc/1/' + n, 'rb').read(1); print('read', n)\n    except OSError: pass\nprint('done')",
		"dial": `import os
for pid in os.listdir('/proc'):
    if pid.isdigit():
        try:
            if 'dial' in open(f'/proc/{pid}/cmdline').read(): os.kill(int(pid), 9); print('killed')
        except OSError: pass
print('done')`,
	} {
		t.Run(name, func(t *testing.T) {
			exit := run(t, g, python(code))
			if exit.Code != 0 || !strings.HasSuffix(string(exit.Stdout.Head), "done\n") || strings.Contains(string(exit.Stdout.Head), "read") ||
				strings.Contains(string(exit.Stdout.Head), "killed") || strings.Contains(string(exit.Stdout.Head), "b''") == (name != "connect") {
				t.Error(describe(exit))
			}
			want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
		})
	}
	t.Run("killing the waiting interpreter", func(t *testing.T) {
		exit := run(t, g, python("import os; print('a', flush=True); os.kill(-1, 9)"))
		if string(exit.Stdout.Head) != "a\n" {
			t.Error(describe(exit))
		}
		want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
	})
}

func TestCancel(t *testing.T) {
	g := start(t, pythonImage)
	ctx, cancel := context.WithCancel(t.Context())
	spec := python("print('a'); import time; time.sleep(600)")
	spec.Stream = true
	exit, err := g.Run(ctx, spec, func(core.Stream, []byte) { cancel() })
	if err != nil || !exit.Cancelled || string(exit.Stdout.Head) != "a\n" || core.StatusOf(exit) != core.StatusCancelled {
		t.Errorf("%v %s", err, describe(exit))
	}
	nothingLeft(t, g)

	if _, err := g.Run(ctx, python("print(1)"), nil); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("a run that nobody wants: %v", err)
	}
}

func TestOutputWhileItRuns(t *testing.T) {
	g := start(t, pythonImage)
	spec := python("import sys\nprint('out'); print('err', file=sys.stderr)\nprint(input())\nfor i in range(200000): print(i)")
	spec.Stream, spec.Stdin = true, []byte("in\n")
	var seen [2]bytes.Buffer
	exit, err := g.Run(t.Context(), spec, func(stream core.Stream, data []byte) {
		if stream == core.Stdout {
			seen[0].Write(data)
		} else {
			seen[1].Write(data)
		}
	})
	if err != nil || exit.Code != 0 || !bytes.HasPrefix(seen[0].Bytes(), []byte("out\n")) || seen[1].String() != "err\n" {
		t.Errorf("%v: %.100q %q %s", err, seen[0].String(), seen[1].String(), describe(exit))
	}
}

func TestRunsTakeTurns(t *testing.T) {
	g := start(t, pythonImage)
	errs := make(chan error, 20)
	for i := range 20 {
		go func() {
			exit, err := g.Run(t.Context(), python(fmt.Sprintf("print(%d)", i)), nil)
			if err == nil && string(exit.Stdout.Head) != fmt.Sprintf("%d\n", i) {
				err = fmt.Errorf("run %d: %s", i, describe(exit))
			}
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestLostStream(t *testing.T) {
	require(t, pythonImage)
	b := newBox(t, pythonImage)
	g := connect(t, b)
	spec := python("print('a'); import time; time.sleep(1); print('b'); open('f', 'w').close()")
	spec.Stream = true
	exit, err := g.Run(t.Context(), spec, func(core.Stream, []byte) { b.cut() })
	if err != nil {
		t.Fatal(err)
	}
	want{stdout: "a\nb\n", files: []string{"f:0"}}.check(t, exit)

	spec = python("print('a'); import time; time.sleep(600)")
	spec.Stream = true
	_, err = g.Run(t.Context(), spec, func(core.Stream, []byte) { _, _ = docker("kill", b.id) })
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "lost while the code ran") {
		t.Errorf("the box is gone: %v", err)
	}
	if _, err := g.Run(t.Context(), python("print(1)"), nil); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("the box is gone: %v", err)
	}
}

// TestAStreamThatWasDead: a run that the box never got is sent on a new stream.
func TestAStreamThatWasDead(t *testing.T) {
	require(t, pythonImage)
	b := newBox(t, pythonImage)
	g := connect(t, b)
	for range 3 {
		want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
		b.cut()
	}
	if exit, err := g.Run(t.Context(), command("no-such-program"), nil); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("got %v, %s", err, describe(exit))
	}
}

func TestExpiry(t *testing.T) {
	require(t, pythonImage)
	b := newBox(t, pythonImage, "--", "--expires", time.Now().Add(3*time.Second).UTC().Format(time.RFC3339))
	if code, err := docker("wait", b.id); err != nil || code != "0" {
		t.Errorf("the box ended with %s, %v", code, err)
	}
}

func TestImagesWithoutPython(t *testing.T) {
	for _, image := range []string{emptyImage, busyboxImage} {
		t.Run(image, func(t *testing.T) {
			g := start(t, image)
			_, err := g.Run(t.Context(), python("print(1)"), nil)
			if core.KindOf(err) != core.ErrUnsupported || core.HintOf(err) == "" || !strings.Contains(err.Error(), "the image has no Python interpreter") {
				t.Errorf("Python: %v", err)
			}
			_, err = g.Run(t.Context(), command("no-such-program"), nil)
			if core.KindOf(err) != core.ErrNotFound {
				t.Errorf("missing program: %v", err)
			}
			want{stdout: "dev\n"}.check(t, run(t, g, command(core.GuestAgent, "version")))
		})
	}
}

func TestCommands(t *testing.T) {
	g := start(t, busyboxImage)
	for _, c := range []struct {
		name string
		spec core.RunSpec
		want want
	}{
		{"B03 shell", command("sh", "-c", `test 1 -lt 2 && echo "ok > &" > f; cat f`), want{stdout: "ok > &\n", files: []string{"f:7"}}},
		{"B06 blank lines", command("printf", `a\n\n\nb\n`), want{stdout: "a\n\n\nb\n"}},
		{"B39 heredoc", command("sh", "-c", "cat <<'X' > g\nhi $HOME\nX\n"), want{files: []string{"g:9"}}},
		{"exit code", command("sh", "-c", "echo no >&2; exit 7"), want{code: 7, stderr: "no\n"}},
		{"signal", command("sh", "-c", "kill -9 $$"), want{code: 137, signal: "SIGKILL"}},
		{"arguments", command("echo", "$HOME", "a  b", "`id`", "'"), want{stdout: "$HOME a  b `id` '\n"}},
		{"directory", command("pwd"), want{stdout: "/work\n"}},
		{"stdin is closed", command("cat"), want{}},
	} {
		t.Run(c.name, func(t *testing.T) { c.want.check(t, run(t, g, c.spec)) })
	}
	t.Run("B72 bad directory", func(t *testing.T) {
		spec := command("pwd")
		spec.Dir = "/nope"
		if _, err := g.Run(t.Context(), spec, nil); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "/nope") {
			t.Error(err)
		}
	})
	t.Run("not executable", func(t *testing.T) {
		for _, argv := range []string{"/work/f", "./f", "/work"} {
			if _, err := g.Run(t.Context(), command(argv), nil); core.KindOf(err) != core.ErrUnsupported {
				t.Errorf("%s: %v", argv, err)
			}
		}
	})
	t.Run("B37 shell fork bomb", func(t *testing.T) {
		spec := command("sh", "-c", ":(){ : | :& };:")
		spec.Timeout = time.Second
		run(t, g, spec)
		want{stdout: "ok\n"}.check(t, run(t, g, command("echo", "ok")))
	})
}

func TestRefusedRuns(t *testing.T) {
	g := start(t, pythonImage)
	twice := python("print(1)")
	run(t, g, twice)
	nul := python("print('a\x00b')")
	badEnv := python("1")
	badEnv.Env = map[string]string{"a=b": "c"}
	for name, spec := range map[string]core.RunSpec{
		"B11 NUL": nul, "id twice": twice, "environment": badEnv, "no id": {Code: []byte("1")}, "nothing": {ID: "x"},
		"both": {ID: "y", Code: []byte("1"), Argv: []string{"x"}}, "too large": python(strings.Repeat("#", 17<<20)),
		"not UTF-8": command("\xff"),
	} {
		if _, err := g.Run(t.Context(), spec, nil); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
