//go:build unix

package folders

import (
	"os"
	"os/exec"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestIsHeld: a box is held by the process that has its log, also when the one who started it has gone.
func TestIsHeld(t *testing.T) {
	boxes, _ := Open(t.TempDir())
	box, err := boxes.Make(core.BoxSpec{})
	if err != nil || boxes.IsHeld(box.ID) {
		t.Fatalf("a box that was never started is held, or %v", err)
	}
	log, err := boxes.Log(box.ID)
	if err != nil || !boxes.IsHeld(box.ID) {
		t.Fatalf("a box that is about to start is not held, or %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo no >&2; read line; exec 2>&-; echo ended; read line")
	cmd.Stderr = log
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if log.Close(); !boxes.IsHeld(box.ID) {
		t.Error("a box that runs is not held")
	}
	if _, err := boxes.Log(box.ID); core.KindOf(err) != core.ErrInternal {
		t.Errorf("a second log: %v", err)
	}
	in.Write([]byte("\n"))
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if boxes.IsHeld(box.ID) {
		t.Error("a box that has ended is held")
	}
	if text, _ := os.ReadFile(boxes.Store.Path(box.ID, "log")); string(text) != "no\n" {
		t.Errorf("its log is %q", text)
	}
	if _, err := boxes.Log("unknown"); core.KindOf(err) != core.ErrInternal {
		t.Errorf("the log of no box: %v", err)
	}
}
