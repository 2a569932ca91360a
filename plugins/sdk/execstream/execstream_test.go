//go:build unix

package execstream

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestBothWays(t *testing.T) {
	stream, err := Start(exec.Command("cat"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := io.WriteString(stream, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(stream, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestEndOfTheCommandIsTheEndOfTheStream(t *testing.T) {
	stream, err := Start(exec.Command("echo", "last words"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if got, err := io.ReadAll(stream); err != nil || string(got) != "last words\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestClosingEndsTheCommand(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	stream, err := Start(exec.Command("sh", "-c", `cat; echo > "$1"`, "sh", mark))
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
	for t.Context().Err() == nil {
		if _, err := os.Stat(mark); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCommandThatDoesNotStart(t *testing.T) {
	_, err := Start(exec.Command("/nowhere/command"))
	if core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %v", err)
	}
}
