package reaper_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
)

func spawn(t *testing.T, script string) int {
	t.Helper()
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Env: os.Environ()})
	if err != nil {
		t.Skipf("needs /bin/sh: %v", err)
	}
	return pid
}

func status(t *testing.T, from <-chan syscall.WaitStatus) syscall.WaitStatus {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(30 * time.Second):
		t.Fatal("no status")
		return 0
	}
}

// eventually waits for what a signal brings about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestReaper is one test, because there can be only one reaper in a process.
func TestReaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skipf("cannot adopt orphans: %v", err)
	}
	r := reaper.Start()

	t.Run("waited for in time", func(t *testing.T) {
		mark := r.Mark()
		if s := status(t, r.Wait(spawn(t, "sleep .1; exit 3"), mark)); s.ExitStatus() != 3 {
			t.Errorf("got %v", s)
		}
	})
	t.Run("ended before anybody waited", func(t *testing.T) {
		mark := r.Mark()
		pid := spawn(t, "exit 4")
		eventually(t, "it was not collected", func() bool { return r.Strays() == 1 })
		if s := status(t, r.Wait(pid, mark)); s.ExitStatus() != 4 || r.Strays() != 0 {
			t.Errorf("got %v, %d strays", s, r.Strays())
		}
	})
	t.Run("another of the same number", func(t *testing.T) {
		pid := spawn(t, "exit 5")
		eventually(t, "it was not collected", func() bool { return r.Strays() == 1 })
		select {
		case s := <-r.Wait(pid, r.Mark()):
			t.Errorf("got the status of an earlier process: %v", s)
		case <-time.After(10 * time.Millisecond):
		}
	})
	t.Run("orphans", func(t *testing.T) {
		before := r.Strays()
		mark := r.Mark()
		status(t, r.Wait(spawn(t, "(sleep .05; exit 1) & (exit 2) & exit 0"), mark))
		eventually(t, "the orphans were not collected", func() bool { return r.Strays() >= before+1 })
	})
	t.Run("killed", func(t *testing.T) {
		mark := r.Mark()
		pid := spawn(t, "sleep 100")
		wait := r.Wait(pid, mark)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if s := status(t, wait); s.Signal() != syscall.SIGKILL {
			t.Errorf("got %v", s)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		mark := r.Mark()
		var waits []<-chan syscall.WaitStatus
		for range 100 {
			waits = append(waits, r.Wait(spawn(t, "exit 6"), mark))
		}
		for _, wait := range waits {
			if s := status(t, wait); s.ExitStatus() != 6 {
				t.Errorf("got %v", s)
			}
		}
	})
}
