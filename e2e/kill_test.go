package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestKilledUnderLoad kills the server again and again at any moment while it works. What a client was told
// holds on: the session, results of runs that ended, runs that were to go on. In the end nothing is left.
// BOXWRIGHT_KILLS says how often; the usual few are for every run of the tests.
func TestKilledUnderLoad(t *testing.T) {
	require(t, "engine")
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("BOXWRIGHT_KILLS")); err == nil {
		kills = n
	}
	state := newState(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	known := &promises{}
	var sandbox string
	for n := range kills {
		s := serve(t, setup{pooled: true, state: state})
		if sandbox == "" {
			sandbox = s.open(t, args{"name": "counter"})
			s.cell(t, sandbox, "n = 0").shows(t, "")
		}
		known.check(t, s, sandbox)
		load := known.burden(s, sandbox)
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		s.signal(t, syscall.SIGKILL)
		s.awaitExit(t)
		load.Wait()
		if t.Failed() {
			t.Fatalf("at kill %d", n)
		}
	}
	s := serve(t, setup{state: state})
	known.check(t, s, sandbox)
	for id := range known.running {
		known.settled(t, s, id)
	}
	// A box whose making outlived its server may come late; whatever comes is swept away.
	eventually(t, 2*time.Minute, func() (bool, string) {
		left := state.boxes(t)
		return len(left) == 1, fmt.Sprintf("%d boxes", len(left))
	})
	s.end(t)
	state.awaitNoBoxes(t)
}

// promises are what clients were told.
type promises struct {
	mu      sync.Mutex
	counted int               // the session's counter is at least this
	tried   int               // and at most this
	ended   map[string]string // output of runs that ended, by id
	running map[string]string // what runs that go on will print
}

// burden has three clients' worth of calls go on until the server is gone.
func (p *promises) burden(s *server, sandbox string) *sync.WaitGroup {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended, p.running = map[string]string{}, map[string]string{}
	}
	var all sync.WaitGroup
	for _, work := range []func() bool{
		func() bool { return p.count(s, sandbox) },
		func() bool { return p.once(s) },
		func() bool { return p.begin(s) },
	} {
		all.Go(func() {
			for work() {
			}
		})
	}
	return &all
}

// call returns false once the server is gone.
func (s *server) callUntilGone(name string, a args) (*mcp.CallToolResult, bool) {
	c := s.start(name, a, nil)
	select {
	case <-c.done:
		return c.answer, c.err == nil
	case <-s.gone:
		c.cancel()
		return nil, false
	}
}

func (p *promises) count(s *server, sandbox string) bool {
	p.mu.Lock()
	p.tried++
	p.mu.Unlock()
	answer, there := s.callUntilGone("run_python", args{"code": "n += 1", "sandbox_id": sandbox})
	if !there || answer.IsError {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted++
	return true
}

func (p *promises) once(s *server) bool {
	text := fmt.Sprint(rand.Uint64())
	answer, there := s.callUntilGone(tool, program("print("+text+")"))
	return there && !answer.IsError
}

func (p *promises) begin(s *server) bool {
	text := fmt.Sprint(rand.Uint64())
	answer, there := s.callUntilGone(tool, program("import time; time.sleep(1); print("+text+")", "background", true))
	if !there || answer.IsError {
		return false
	}
	id := fmt.Sprint(answer.StructuredContent.(map[string]any)["run_id"])
	p.mu.Lock()
	p.running[id] = text + "\n"
	p.mu.Unlock()
	answer, there = s.callUntilGone("get_run", args{"run_id": id, "wait_seconds": 30})
	if !there || answer.IsError {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[id] = p.running[id]
	delete(p.running, id)
	return true
}

// check looks whether all that was promised before the kill is there.
func (p *promises) check(t *testing.T, s *server, sandbox string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := s.cell(t, sandbox, "n")
	n, err := strconv.Atoi(r.Result)
	if err != nil || n < p.counted || n > p.tried {
		t.Errorf("the counter of the session is %q; it was told to be %d, and at most %d calls were made\n%s", r.Result, p.counted, p.tried, r.raw)
	}
	p.counted, p.tried = n, n
	for id, want := range p.ended {
		if r := s.use(t, "get_run", args{"run_id": id}); r.Stdout != want || r.Status != "ok" {
			t.Errorf("the result of run %s is lost: %s", id, r.raw)
		}
	}
}

// settled waits for the end of a run that was to go on.
func (p *promises) settled(t *testing.T, s *server, id string) {
	t.Helper()
	if r := s.finish(t, id); r.Stdout != p.running[id] || r.Status != "ok" {
		t.Errorf("the run %s that was to go on: %s", id, r.raw)
	}
}
