package python

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
)

// TestHeed: a mistake in hearing an interpreter out ends that interpreter, here a child of the test's, and is told as
// its loss.
func TestHeed(t *testing.T) {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "", Net: "unixgram"}) // whichever; nobody speaks
	if err != nil {
		t.Fatal(err)
	}
	l := &Lasting{process: process{pid: child.Process.Pid, conn: conn}, gone: make(chan struct{})}
	go func() {
		_ = child.Wait()
		l.status, _ = child.ProcessState.Sys().(syscall.WaitStatus)
		close(l.gone)
	}()
	if answer := l.heed(func() Answer { return Answer{Code: 3} }); answer.Code != 3 || answer.Lost || !l.Alive() {
		t.Errorf("one that is heard out: %+v", answer)
	}
	if answer := l.heed(func() Answer { panic("x") }); !answer.Lost || answer.Status.Signal() != syscall.SIGKILL {
		t.Errorf("one that is not: %+v", answer)
	}
}
