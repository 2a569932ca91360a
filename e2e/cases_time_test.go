package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// killed is a run whose time was up before it had said anything.
func killed() outcome { return outcome{status: "timed_out", exit: 137, signal: "SIGKILL"} }

// timeCases: time, cancellation, processes.
func timeCases() []testCase {
	return []testCase{
		{id: "B25 nothing goes on after the timeout", play: nothingGoesOn},
		{
			id: "B25 a child outlives its program", code: "import subprocess; subprocess.Popen(['sleep', '600']); print('done')",
			want: outcome{stdout: "done\n"},
			also: func(t *testing.T, _ *server, r result) {
				holds(t, strings.Join(r.Warnings, "\n"), "was still running when the program ended, and was killed")
			},
		},
		{
			id: "B27 a stopped process", code: "import os; os.kill(0, 19)", with: args{"timeout_seconds": 3},
			want: killed(),
		},
		{id: "B29 20 timeouts at once", play: twentyTimeouts},
		{id: "B30 one rule for the time limit", play: timeLimits},
		{id: "B31 others are answered", play: othersAreAnswered},
		{id: "B32 the client cancels", play: clientCancels},
		{id: "B32 the client cancels at any moment", play: cancelledAnytime},
		{id: "B33 progress", play: progressTicks},
		{
			id:   "B34 what was done until the timeout",
			code: "import matplotlib.pyplot as plt, time\nprint('so far')\nplt.plot([1, 2]); plt.savefig('a.png')\ntime.sleep(99)",
			with: args{"dependencies": []string{"matplotlib"}, "timeout_seconds": 40}, // a loaded machine imports slowly
			want: outcome{status: "timed_out", exit: 137, signal: "SIGKILL", stdout: "so far\n", files: []string{"a.png"}, images: 1},
		},
		{
			id: "B35 a timeout is its own kind", code: "import time; time.sleep(99)", with: args{"timeout_seconds": 1},
			want: killed(),
			also: func(t *testing.T, _ *server, r result) { holds(t, r.text, "timed_out", "timeout_seconds") },
		},
		{id: "B37 fork bomb", play: forkBomb},
		{
			id:   "B38 numeric libraries with many threads",
			code: "import os\nos.environ['OPENBLAS_NUM_THREADS'] = '64'\nimport numpy\nprint(int((numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0]))",
			with: args{"image": preinstalledImage},
			want: outcome{stdout: "300\n"},
		},
		{id: "B40 out of memory", play: outOfMemory},
		{id: "B41 the limit of runs at once", play: atOnce},
	}
}

// nothingGoesOn has a server of its own, so that all boxes are its run's.
func nothingGoesOn(t *testing.T, _ *server) {
	s := serve(t, setup{})
	code := "import os, subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nif os.fork() == 0: os.setsid()\nwhile True: pass"
	c := s.begin(t, program(code, "timeout_seconds", 2))
	box := s.awaitBox(t, "run")
	r := c.wait(t)
	killed().check(t, r)
	if ms := r.DurationMS["run"]; ms < 1900 {
		t.Errorf("the run took %v ms", ms)
	}
	s.awaitNoBoxes(t)
	if left := s.boxes(t); slices.Contains(left, box) {
		t.Errorf("box %s is still there", box)
	}
}

func twentyTimeouts(t *testing.T, s *server) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c := s.send(t, program("while True: pass", "timeout_seconds", 1), nil)
			<-c.done
			if c.err != nil {
				t.Errorf("not answered: %v", c.err)
				return
			}
			killed().check(t, decode(t, c.answer))
		})
	}
	all.Wait()
}

func timeLimits(t *testing.T, s *server) {
	for _, value := range []string{"0", "-1", "600.5", "601", "1e300", `"0"`, "0.0"} {
		r := s.run(t, args{"code": "print(1)", "timeout_seconds": json.RawMessage(value)})
		outcome{refused: "invalid", says: []string{"timeout_seconds is", "above 0 and at most 600"}}.check(t, r)
	}
	for _, value := range []string{`"soon"`, "true", "[]", `"NaN"`} {
		r := s.run(t, args{"code": "print(1)", "timeout_seconds": json.RawMessage(value)})
		outcome{refused: "invalid", says: []string{"timeout_seconds must be a number of seconds"}}.check(t, r)
	}
	for _, value := range []string{"5", `"5"`, "null", "600", "4.5"} {
		r := s.run(t, args{"code": "print(1)", "timeout_seconds": json.RawMessage(value)})
		outcome{stdout: "1\n"}.check(t, r)
	}
}

func othersAreAnswered(t *testing.T, s *server) {
	loop := s.begin(t, program("while True: pass", "timeout_seconds", 120))
	loop.awaitProgress(t, "running")
	for i := range 3 {
		outcome{stdout: fmt.Sprintln(i)}.check(t, s.run(t, program(fmt.Sprintf("print(%d)", i))))
	}
	select {
	case <-loop.done:
		t.Error("the loop ended")
	default:
	}
	loop.cancel()
}

func clientCancels(t *testing.T, _ *server) {
	s := serve(t, setup{})
	c := s.begin(t, program("import subprocess; subprocess.run(['sleep', '600'])", "timeout_seconds", 600))
	c.awaitProgress(t, "running")
	s.awaitBox(t, "run")
	c.cancel()
	s.awaitNoBoxes(t)
	outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
}

// cancelledAnytime: nothing is left, however far the run had come.
func cancelledAnytime(t *testing.T, _ *server) {
	s := serve(t, setup{})
	var calls []*call
	for i := range 16 {
		c := s.send(t, program("import time; time.sleep(600)", "timeout_seconds", 600), nil)
		time.AfterFunc(time.Duration(i)*60*time.Millisecond, c.cancel)
		calls = append(calls, c)
	}
	for _, c := range calls {
		<-c.done
	}
	s.awaitNoBoxes(t)
	outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
}

// progressTicks: the clients that reset their own timeout by progress hear something every 5 to 10 s.
func progressTicks(t *testing.T, s *server) {
	c := s.begin(t, program("import time\ntime.sleep(11)\nprint('done', flush=True)\ntime.sleep(1)"))
	outcome{stdout: "done\n"}.check(t, c.wait(t))
	messages := c.progress()
	ticks := slices.DeleteFunc(slices.Clone(messages), func(m string) bool { return !strings.Contains(m, " s so far") })
	if len(ticks) == 0 {
		t.Errorf("no tick in 11 s: %q", messages)
	}
	holds(t, strings.Join(messages, "\n"), "running", "done")
	if quiet := s.run(t, program("print(1)")); quiet.Status != "ok" {
		t.Error("no progress, no run")
	}
}

func forkBomb(t *testing.T, _ *server) {
	s := serve(t, setup{})
	r := s.run(t, program("import os\nwhile True: os.fork()", "timeout_seconds", 4))
	if r.isError || r.Status == "ok" {
		t.Errorf("got %.2000s", r.raw)
	}
	outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
	s.awaitNoBoxes(t)
}

func outOfMemory(t *testing.T, _ *server) {
	s := serve(t, setup{config: "limits: {memory: 256MiB}\n"})
	hungry := "print('before')\nx = bytearray(10**9)\nprint('after')"
	r := s.run(t, program(hungry))
	outcome{status: "oom_killed", exit: 137, signal: "SIGKILL", stdout: "before\n"}.check(t, r)
	holds(t, r.text, "ran out of memory")
	child := "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'x = bytearray(10**9)']).returncode)"
	r = s.run(t, program(child))
	if r.isError || !strings.Contains(r.Stdout, "-9") && r.Status != "oom_killed" {
		t.Errorf("a child out of memory: %.2000s", r.raw)
	}
	outcome{stdout: "next\n"}.check(t, s.run(t, program("print('next')")))
}

// atOnce lets each program tell when it ran, by the one clock of the machine.
func atOnce(t *testing.T, _ *server) {
	s := serve(t, setup{config: "runs: {max_concurrent: 2}\n"})
	var calls []*call
	for range 12 {
		calls = append(calls, s.send(t, program("import time; print(time.time()); time.sleep(0.3); print(time.time())"), nil))
	}
	type event struct {
		at    float64
		delta int
	}
	var events []event
	for _, c := range calls {
		var from, to float64
		if _, err := fmt.Sscan(c.wait(t).Stdout, &from, &to); err != nil {
			t.Fatal(err)
		}
		events = append(events, event{from, 1}, event{to, -1})
	}
	slices.SortFunc(events, func(a, b event) int { return int(1e6 * (a.at - b.at)) })
	running := 0
	for _, e := range events {
		if running += e.delta; running > 2 {
			t.Fatalf("%d ran at once", running)
		}
	}
}
