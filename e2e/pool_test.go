package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"
)

// pooling starts a server in whose pool up to four boxes wait, and returns one that does. The first call sees
// to it that the image is there.
func pooling(t *testing.T, state *state) (s *server, box string) {
	t.Helper()
	s = serve(t, setup{pooled: true, state: state, config: "log: {level: debug}\npool: {max: 4}\n"})
	outcome{stdout: "-1 False\n"}.check(t, s.run(t, program(marks(-1))))
	return s, s.awaitWaiting(t)
}

// marks prints its number and whether the box was used before, and leaves a mark in it.
func marks(n int) string {
	return fmt.Sprintf("import os\nprint(%d, os.path.exists('/tmp/mark'))\nopen('/tmp/mark', 'w').close()", n)
}

// logged are the boxes of which the log says so, in order.
func (s *server) logged(says string) []string {
	var boxes []string
	for _, found := range regexp.MustCompile(says+`.* box=(\S+)`).FindAllStringSubmatch(s.stderr.String(), -1) {
		boxes = append(boxes, found[1])
	}
	return boxes
}

func (s *server) taken() []string { return s.logged("a waiting box was taken for runs") }

// awaitWaiting returns a box that waits.
func (s *server) awaitWaiting(t *testing.T) (box string) {
	t.Helper()
	eventually(t, 30*time.Second, func() (bool, string) {
		made := s.logged("a box waits for runs")
		if len(made) <= len(s.taken()) {
			return false, "no box waits"
		}
		box = made[len(made)-1]
		return true, ""
	})
	return box
}

// TestPool: a call is served by a box that waited for it, which is used for nothing else; another takes its
// place. Nothing is left when the server ends.
func TestPool(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s, _ := pooling(t, nil)
	for n := range 3 {
		before := len(s.taken())
		outcome{stdout: fmt.Sprintf("%d False\n", n)}.check(t, s.run(t, program(marks(n))))
		taken := s.taken()[before:]
		if len(taken) != 1 {
			t.Fatalf("call %d took the waiting boxes %q", n, taken)
		}
		eventually(t, 20*time.Second, func() (bool, string) {
			return !slices.Contains(s.boxes(t), taken[0]), "the box that was used is still there"
		})
		s.awaitWaiting(t)
	}
	s.end(t)
	if left := s.boxes(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPoolOfADeadServer: its waiting boxes go with the next start.
func TestPoolOfADeadServer(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	first, box := pooling(t, state)
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
	s, _ := pooling(t, nil)
	calls := make([]*call, 50)
	for n := range calls {
		calls[n] = s.send(t, program(marks(n)), nil)
	}
	for n, c := range calls {
		outcome{stdout: fmt.Sprintf("%d False\n", n)}.check(t, c.wait(t))
	}
	// The used ones are going. On a busy machine that takes a sandbox with a kernel of its own longer than a server
	// that is told to end waits; what is left then is the next server's.
	eventually(t, 30*time.Second, func() (bool, string) {
		left := s.boxes(t)
		return len(left) < 20, fmt.Sprintf("%d boxes", len(left))
	})
}
