package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withPool is a server in whose pool up to four boxes wait, one of them always.
func withPool(s *state) setup {
	return setup{state: s, config: "log: {level: debug}\npool: {max: 4}\n", env: []string{"BOXWRIGHT_POOL_ENABLED=true"}}
}

// TestPool: a call is served by a box that waited for it, which is used for nothing else; another takes its
// place. Nothing is left when the server ends.
func TestPool(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, withPool(nil))
	for n := range 3 {
		waits(t, s, n)
		box := s.awaitBox(t, "run")
		outcome{stdout: fmt.Sprintf("%d False\n", n)}.check(t, s.run(t, program(marks(n))))
		if taken := strings.Count(s.stderr.String(), "a waiting box was taken"); taken != n+1 {
			t.Errorf("%d calls were served by %d boxes that waited", n+1, taken)
		}
		eventually(t, 20*time.Second, func() (bool, string) {
			return !slices.Contains(s.boxes(t), box), "the box that was used is still there"
		})
	}
	waits(t, s, 3)
	s.end(t)
	if left := s.boxes(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// waits has it that a box is ready for the n-th call.
func waits(t *testing.T, s *server, n int) {
	t.Helper()
	eventually(t, 30*time.Second, func() (bool, string) {
		return strings.Count(s.stderr.String(), "a box waits for runs") > n, "no box waits"
	})
}

// marks prints its number and whether the box was used before, and leaves a mark in it.
func marks(n int) string {
	return fmt.Sprintf("import os\nprint(%d, os.path.exists('/tmp/mark'))\nopen('/tmp/mark', 'w').close()", n)
}

// TestPoolOfADeadServer: its waiting boxes go with the next start.
func TestPoolOfADeadServer(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	first := serve(t, withPool(state))
	box := state.awaitBox(t, "run")
	first.signal(t, syscall.SIGKILL)
	first.awaitExit(t)
	if !slices.Contains(state.boxes(t), box) {
		t.Fatal("the box is gone with its server: the test shows nothing")
	}
	serve(t, setup{state: state})
	state.awaitNoBoxes(t)
}

// TestFiftyCallers: each has its own output and a box that nobody had before.
func TestFiftyCallers(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, withPool(nil))
	waits(t, s, 0)
	calls := make([]*call, 50)
	for n := range calls {
		calls[n] = s.send(t, program(marks(n)), nil)
	}
	for n, c := range calls {
		outcome{stdout: fmt.Sprintf("%d False\n", n)}.check(t, c.wait(t))
	}
}
