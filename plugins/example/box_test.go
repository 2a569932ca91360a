package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/folders"
)

// TestABoxThatHasNotReportedYet: the plugin that started it was killed before bwrap had told the box's number.
func TestABoxThatHasNotReportedYet(t *testing.T) {
	b := &backend{}
	b.boxes, b.volumes = folders.Open(t.TempDir())
	box, err := b.boxes.Make(core.BoxSpec{Labels: core.Labels{Instance: "i"}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := b.boxes.Log(box.ID)
	if err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"child-pid": '$$', "pid-namespace": %s}`, strings.Trim(link, "pid:[]"))
	cmd := exec.Command("sh", "-c", "read go; echo '"+text+"' > "+b.boxes.Store.Path(box.ID, report)+"; exec sleep 600")
	cmd.Stderr = log
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	log.Close()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Destroy(ended, box.ID); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("its end is not awaited: %v", err)
	}
	if have, err := b.List(t.Context(), "i"); err != nil || len(have.Boxes) != 1 {
		t.Errorf("nobody knows the box any more: %+v, %v", have, err)
	}
	in.Write([]byte("\n"))
	bounded, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if err := b.Destroy(bounded, box.ID); err != nil {
		t.Error(err)
	}
	<-reaped
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", status)
	}
	if _, err := b.boxes.Find(box.ID); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("the box is still there: %v", err)
	}
}
