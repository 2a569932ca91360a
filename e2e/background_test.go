package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// background starts a run that goes on, and returns its id.
func (s *server) background(t *testing.T, name string, a args) string {
	t.Helper()
	a["background"] = true
	r := s.use(t, name, a)
	if r.isError || r.Status != "running" || r.RunID == "" || r.ExitCode != nil {
		t.Fatalf("it does not run: %s", r.raw)
	}
	return r.RunID
}

// finish waits for the end of a run.
func (s *server) finish(t *testing.T, id string) result {
	t.Helper()
	var r result
	eventually(t, time.Minute, func() (bool, string) {
		r = s.use(t, "get_run", args{"run_id": id, "wait_seconds": 5})
		return r.Status != "running", r.raw
	})
	return r
}

// piece is what read_output answers.
type piece struct {
	Text  string `json:"text"`
	Next  int    `json:"next_offset"`
	Total int    `json:"total_bytes"`
	Ended bool   `json:"ended"`
}

func (s *server) output(t *testing.T, a args) piece {
	t.Helper()
	r := s.use(t, "read_output", a)
	var p piece
	if err := json.Unmarshal([]byte(r.raw), &p); err != nil || r.isError {
		t.Fatalf("got %s", r.raw)
	}
	return p
}

// TestBackground plays runs that outlive their call.
func TestBackground(t *testing.T) {
	require(t, "engine")
	s := serve(t, setup{pooled: true})
	for name, play := range map[string]func(t *testing.T, s *server){
		"once":                    func(t *testing.T, s *server) { backgroundRun(t, s, tool) },
		"in a sandbox":            func(t *testing.T, s *server) { backgroundRun(t, s, "run_python") },
		"B33 by itself":           byItself,
		"input":                   interactive,
		"input that nobody reads": unread,
		"cancelled":               cancelledLater,
		"long output":             longOutput,
		"what cannot be run":      failedInBackground,
		"runs that are not there": unknownRuns,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, s)
		})
	}
}

func backgroundRun(t *testing.T, s *server, name string) {
	id := s.background(t, name, program("print('one', flush=True)\ninput()\nprint('two')\nopen('f', 'w').write('f');", "open_stdin", true))
	eventually(t, 30*time.Second, func() (bool, string) {
		p := s.output(t, args{"run_id": id})
		return p.Text == "one\n" && p.Next == 4 && !p.Ended, fmt.Sprintf("%+v", p)
	})
	if r := s.use(t, "send_input", args{"run_id": id, "text": "\n"}); r.isError {
		t.Errorf("got %s", r.raw)
	}
	outcome{stdout: "one\ntwo\n", files: []string{"f"}}.check(t, s.finish(t, id))
	if p := s.output(t, args{"run_id": id, "offset": 4}); p.Text != "two\n" || !p.Ended || p.Total != 8 {
		t.Errorf("the rest is %+v", p)
	}
	holds(t, s.use(t, "list_runs", args{}).text, id+" ok")
}

// byItself: a run goes on in the background when its call has waited long enough.
func byItself(t *testing.T, _ *server) {
	s := serve(t, setup{pooled: true, env: []string{"BOXWRIGHT_RUNS_SYNC_LIMIT=3s"}})
	r := s.run(t, program("import time; print('a', flush=True); time.sleep(7); print('b')"))
	if r.Status != "running" {
		t.Fatalf("got %s", r.raw)
	}
	holds(t, r.text, "get_run", r.RunID)
	outcome{stdout: "a\nb\n"}.check(t, s.finish(t, r.RunID))
}

func interactive(t *testing.T, s *server) {
	a := program("while True:\n    line = input()\n    print('got', line, flush=True)", "stdin", "first\n", "open_stdin", true)
	id := s.background(t, tool, a)
	for _, text := range []string{"sec", "ond ж\n"} {
		if r := s.use(t, "send_input", args{"run_id": id, "text": text}); r.isError {
			t.Errorf("got %s", r.raw)
		}
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		p := s.output(t, args{"run_id": id})
		return p.Text == "got first\ngot second ж\n", p.Text
	})
	if r := s.use(t, "send_input", args{"run_id": id, "end": true}); r.isError {
		t.Errorf("got %s", r.raw)
	}
	outcome{status: "failed", exit: 1, stdout: "got first\ngot second ж\n", stderr: "EOFError"}.check(t, s.finish(t, id))
	if r := s.use(t, "send_input", args{"run_id": id, "text": "x"}); r.Error.Type != "invalid" {
		t.Errorf("after the end: %s", r.raw)
	}
	if r := s.run(t, program("1", "open_stdin", true)); r.Error.Type != "invalid" {
		t.Errorf("open_stdin without background: %s", r.raw)
	}
}

// unread: a program that reads nothing holds its sender for a while only.
func unread(t *testing.T, s *server) {
	id := s.background(t, tool, program("import time; time.sleep(500)", "open_stdin", true, "timeout_seconds", 500))
	r := s.use(t, "send_input", args{"run_id": id, "text": strings.Repeat("x", 600<<10), "end": true})
	var told struct {
		Sent int `json:"sent_bytes"`
	}
	if err := json.Unmarshal([]byte(r.raw), &told); err != nil || r.isError || told.Sent < 1<<10 || told.Sent >= 600<<10 {
		t.Errorf("%d bytes: %s", told.Sent, r.raw)
	}
	holds(t, r.text, "does not read", "has not been ended")
	if r := s.use(t, "cancel_run", args{"run_id": id}); r.Status != "cancelled" {
		t.Errorf("got %s", r.raw)
	}
}

func cancelledLater(t *testing.T, s *server) {
	id := s.background(t, tool, program("import time; print('a', flush=True); time.sleep(500)", "timeout_seconds", 500))
	eventually(t, 30*time.Second, func() (bool, string) {
		p := s.output(t, args{"run_id": id})
		return p.Text == "a\n", p.Text
	})
	if r := s.use(t, "cancel_run", args{"run_id": id}); r.Status != "cancelled" || r.Stdout != "a\n" {
		t.Errorf("got %s", r.raw)
	}
	if again := s.use(t, "cancel_run", args{"run_id": id}); again.Status != "cancelled" {
		t.Errorf("again: %s", again.raw)
	}
}

// longOutput: all of it can be read by pieces, whole characters each, also after the end.
func longOutput(t *testing.T, s *server) {
	r := s.run(t, program("print('\\n'.join('漢 %d' % i for i in range(20000)))"))
	if r.Status != "ok" || r.Truncated.StdoutBytes == 0 {
		t.Fatalf("got %.500s", r.raw)
	}
	var all strings.Builder
	for at := 0; ; {
		p := s.output(t, args{"run_id": r.RunID, "offset": at, "limit": 100_001})
		all.WriteString(p.Text)
		if at = p.Next; at == p.Total {
			break
		}
	}
	var want strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&want, "漢 %d\n", i)
	}
	if all.String() != want.String() {
		t.Errorf("read %d bytes, which are not the %d that were printed", all.Len(), want.Len())
	}
}

func failedInBackground(t *testing.T, s *server) {
	if r := s.run(t, program("1", "background", true, "image", "not-allowed:1")); r.Error.Type != "denied" {
		t.Errorf("got %s", r.raw)
	}
	if r := s.run(t, program("1", "background", "often")); r.Error.Type != "invalid" {
		t.Errorf("got %s", r.raw)
	}
}

func unknownRuns(t *testing.T, s *server) {
	for name, a := range map[string]args{
		"get_run": {}, "read_output": {}, "cancel_run": {}, "send_input": {"text": "x"},
	} {
		a["run_id"] = "nosuchrun"
		if r := s.use(t, name, a); r.Error.Type != "not_found" || r.Error.Hint == "" {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	for _, a := range []args{{"offset": -1}, {"limit": 0}, {"limit": 1 << 40}, {"stream": "stdlog"}, {"offset": "x"}} {
		a["run_id"] = "nosuchrun"
		if r := s.use(t, "read_output", a); r.Error.Type != "invalid" {
			t.Errorf("%v: %s", a, r.raw)
		}
	}
}

// TestRunsSurvive: the server is killed; results that were there are there, and runs under way are taken up.
func TestRunsSurvive(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	s := serve(t, setup{state: state})
	slow := func() args {
		return program("import time; print('a', flush=True); time.sleep(8); print('b'); open('f', 'w').write('f');")
	}
	ended := s.background(t, tool, program("print('done')"))
	outcome{stdout: "done\n"}.check(t, s.finish(t, ended))
	once, cell := s.background(t, tool, slow()), s.background(t, "run_python", slow())
	s.signal(t, syscall.SIGKILL)
	s.awaitExit(t)

	s = serve(t, setup{state: state})
	outcome{stdout: "done\n"}.check(t, s.finish(t, ended))
	for _, id := range []string{once, cell} {
		r := s.finish(t, id)
		if r.Stdout != "a\nb\n" || r.Status != "ok" || len(r.Files) != 1 || !r.warns("the server was restarted") {
			t.Errorf("got %.2000s", r.raw)
		}
	}
}
