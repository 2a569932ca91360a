package guest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// sleepers counts the processes in the box that have a word as an argument, for each of the words.
func sleepers(t *testing.T, g execution.Guest, words ...string) string {
	t.Helper()
	script := ""
	for _, word := range words { // as a pattern that is not itself such an argument
		last := len(word) - 1
		script += fmt.Sprintf("echo $(grep -lzx '%s[%s]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l);", word[:last], word[last:])
	}
	exit := run(t, g, kept("sh", "-c", script))
	return strings.Join(strings.Fields(string(exit.Stdout.Head)), " ")
}

// TestKeep: a run ends when its program does, and what that has started goes on.
func TestKeep(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		began := time.Now()
		exit := run(t, g, kept("sh", "-c", "sleep 301 & echo started; echo problem >&2"))
		want{stdout: "started\n", stderr: "problem\n"}.check(t, exit)
		if len(exit.Warnings) > 0 {
			t.Errorf("warnings: %q", exit.Warnings)
		}
		want{stdout: "started\n"}.check(t, run(t, g, cell("import subprocess; s = subprocess.Popen(['sleep', '301']); print('started')")))
		spec := python("import subprocess; subprocess.Popen(['sleep', '301']); print('started')")
		spec.Keep = true
		want{stdout: "started\n"}.check(t, run(t, g, spec))
		if time.Since(began) > time.Minute {
			t.Error("somebody waited for a process that goes on")
		}
		if n := sleepers(t, g, "301"); n != "3" {
			t.Errorf("%s of 3 go on", n)
		}
		want{stdout: "None\n"}.check(t, run(t, g, cell("print(s.poll())")))
		// What writes later does not find the pipe closed.
		want{stdout: strings.Repeat("x", 1<<16)}.check(t, run(t, g, kept("sh", "-c", "(sleep .3; while :; do echo y; sleep .01; done) & head -c 65536 /dev/zero | tr '\\0' x")))
	})
}

// TestNothingIsKeptUnasked: a program of the old kind takes all with it that it cannot be told from.
func TestNothingIsKeptUnasked(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, cell("x = 1"))
		exit := run(t, g, python("print(1)"))
		want{stdout: "1\n"}.check(t, exit)
		if exit.StateLost || len(exit.Warnings) > 0 {
			t.Error(describe(exit))
		}
		exit = run(t, g, command("sh", "-c", "sleep 303 & echo 1"))
		want{stdout: "1\n"}.check(t, exit)
		if n := sleepers(t, g, "303"); !exit.StateLost || n != "0" {
			t.Errorf("%s go on: %s", n, describe(exit))
		}
		want{stdout: "False\n"}.check(t, run(t, g, cell("print('x' in globals())")))
	})
}

// TestKeptServer: one that was left running answers the next run, and can go on printing.
func TestKeptServer(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, kept("sh", "-c", "python3 -u -m http.server 8123 & sleep 1"))
		const ask = "import urllib.request, time\nfor i in range(50):\n    try: print(urllib.request.urlopen('http://127.0.0.1:8123/').status); break\n    except OSError: time.sleep(.1)"
		for range 3 {
			want{stdout: "200\n"}.check(t, run(t, g, cell(ask)))
		}
		spec := python(ask)
		spec.Keep = true
		want{stdout: "200\n"}.check(t, run(t, g, spec))
	})
}

// eachEscape is a way in which a process gets out of its run's sight; each starts "sleep 302".
var eachEscape = map[string]string{
	"child":       "sleep 302 & sleep 302",
	"setsid":      "setsid sleep 302 & sleep 302",
	"double fork": "(setsid sh -c 'sleep 302 & sleep 302 &' &) ; sleep 302",
	"stopped":     "sleep 302 & kill -STOP $!; sleep 302",
	"ignores":     "trap '' INT TERM HUP; (trap '' INT TERM HUP; sleep 302) & sleep 302",
}

// TestKeepEndsAtItsTime: all that a run has started ends with it, and nothing that was there before.
func TestKeepEndsAtItsTime(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, kept("sh", "-c", "setsid sleep 301 &"))
		run(t, g, cell("x = 1"))
		for name, script := range eachEscape {
			spec := kept("sh", "-c", "echo a; "+script)
			spec.Timeout = 300 * time.Millisecond
			python := cell(fmt.Sprintf("import subprocess; print('a')\nsubprocess.run(['sh', '-c', %q])", script))
			python.Timeout = spec.Timeout
			system := cell(fmt.Sprintf("import os; print('a')\nos.system(%q)", script))
			system.Timeout = spec.Timeout
			for kind, spec := range map[string]core.RunSpec{"command": spec, "cell": python, "system": system} {
				t.Run(name+"/"+kind, func(t *testing.T) {
					exit := run(t, g, spec)
					if !exit.TimedOut || string(exit.Stdout.Head) != "a\n" || exit.StateLost {
						t.Error(describe(exit))
					}
					if n := sleepers(t, g, "302", "301"); n != "0 1" {
						t.Errorf("its own, and the one from before: %s", n)
					}
				})
			}
		}
		want{stdout: "1\n"}.check(t, run(t, g, cell("print(x)")))
	})
}

// TestKilledCell: as at its time, when somebody asks for it.
func TestKilledCell(t *testing.T) {
	onEachKernel(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, cell("x = 1"))
		spec := cell("import time; print('a', end='')\ntry: time.sleep(20)\nfinally: print('b')")
		go func() {
			for started(t, g, spec.ID) == "" {
				time.Sleep(10 * time.Millisecond)
			}
			_ = g.Kill(t.Context(), spec.ID)
		}()
		spec.Code = append([]byte("print('-', flush=True)\n"), spec.Code...)
		exit := run(t, g, spec)
		if !exit.Cancelled || exit.StateLost || string(exit.Stdout.Head) != "-\nab\n" || !strings.Contains(string(exit.Stderr.Head), "KeyboardInterrupt") {
			t.Error(describe(exit))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		exit, err := g.Run(ctx, cell("import time\nwhile True: time.sleep(1)"), nil)
		if err != nil || !exit.Cancelled || exit.StateLost {
			t.Errorf("%v %s", err, describe(exit))
		}
		want{stdout: "1\n"}.check(t, run(t, g, cell("print(x)")))
	})
}

// started is what a run has printed so far.
func started(t *testing.T, g execution.Guest, id string) string {
	t.Helper()
	piece, err := g.Output(t.Context(), id, core.Stdout, 0, 100)
	if err != nil && core.KindOf(err) != core.ErrNotFound {
		t.Error(err)
	}
	return string(piece.Data)
}

// TestStubbornCell: code that does not let itself be interrupted costs the session its state.
func TestStubbornCell(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		for name, code := range map[string]string{
			"catches all": "import time\nwhile True:\n    try:\n        while True: time.sleep(.01)\n    except BaseException: pass",
			"ignores":     "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
			"in C":        "sum(range(10**12))",
		} {
			t.Run(name, func(t *testing.T) {
				run(t, g, cell("x = 1"))
				spec := cell("print('a')\nprint('b', end='')\n" + code)
				spec.Timeout = 300 * time.Millisecond
				exit := run(t, g, spec)
				if !exit.TimedOut || !exit.StateLost || exit.Signal != "SIGKILL" || !strings.HasPrefix(string(exit.Stdout.Head), "a\n") {
					t.Error(describe(exit))
				}
				want{stdout: "False\n"}.check(t, run(t, g, cell("print('x' in globals())")))
			})
		}
	})
}

// TestInterruptedCell: what is interrupted ends, and what is remembered stays.
func TestInterruptedCell(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, k.option()...)
		run(t, g, cell("x = 1"))
		for name, code := range map[string]string{
			"loop":    "while True: pass",
			"sleep":   "import time; time.sleep(20)",
			"await":   "import asyncio\nawait asyncio.sleep(20)",
			"pool":    "import multiprocessing as m, time\nwith m.Pool(2) as p: p.map(time.sleep, [20, 20])",
			"input":   "input()",
			"match":   "import re; re.match('(a+)+b', 'a' * 60)",
			"stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
		} {
			t.Run(name, func(t *testing.T) {
				spec := cell("print('a', end='')\n" + code)
				spec.Timeout, spec.OpenStdin = time.Second, true
				exit := run(t, g, spec)
				if !exit.TimedOut || exit.StateLost || string(exit.Stdout.Head) != "a" || !strings.Contains(string(exit.Stderr.Head), "KeyboardInterrupt") {
					t.Error(describe(exit))
				}
				want{stdout: "1\n"}.check(t, run(t, g, cell("print(x)")))
			})
		}
		want{stdout: "0\n"}.check(t, run(t, g, cell("import asyncio\nprint(await asyncio.sleep(0, 0))")))
	})
}

// TestForkBombInASession: the box serves the next code, whatever that costs.
func TestForkBombInASession(t *testing.T) {
	onEach(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "1g")...)
		for _, code := range []string{
			"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
			// A shell that cannot fork ends, and so would the code: there is another one then.
			"import subprocess, time\nwhile True:\n    try: subprocess.Popen(['sh', '-c', 'f() { f | f & }; f; while :; do :; done', 'bomb'])\n    except OSError: time.sleep(.1)",
		} {
			spec := cell(code)
			spec.Timeout = time.Second
			exit := run(t, g, spec)
			if !exit.TimedOut && !strings.Contains(strings.Join(exit.Warnings, ";"), "processes and threads; its limit is") && exit.Code == 0 {
				t.Error(describe(exit))
			}
			want{stdout: "1\n"}.check(t, run(t, g, cell("print(1)")))
			if n := sleepers(t, g, "bomb"); n != "0" {
				t.Errorf("%s are left", n)
			}
		}
	})
}

// TestSurvivorsKeepTheBoxsLimits: also while nothing runs.
func TestSurvivorsKeepTheBoxsLimits(t *testing.T) {
	with(t, func(t *testing.T, k keeper) {
		g := start(t, pythonImage, append(k.option(), "--memory", "256m")...)
		run(t, g, cell("x = 1"))
		run(t, g, kept("sh", "-c", "(sleep 1; exec python3 -c 'x = bytearray(10**9); import time; time.sleep(99)') &"))
		exit := run(t, g, cell("print('x' in globals())"))
		for tries := 0; !exit.StateLost && tries < 60; tries++ {
			time.Sleep(500 * time.Millisecond)
			exit = run(t, g, cell("print('x' in globals())"))
		}
		if !exit.StateLost || string(exit.Stdout.Head) != "False\n" || !strings.Contains(strings.Join(exit.Warnings, ";"), "its limit is 256 MiB") {
			t.Error(describe(exit))
		}
	}, agent)
}
