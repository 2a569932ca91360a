//go:build linux

package sdk_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
)

// hostRole makes the test binary play a host that spawns the plugin and waits to be killed.
const hostRole = "BOXWRIGHT_TEST_HOST"

func TestPluginDiesWithItsHost(t *testing.T) {
	if os.Getenv(hostRole) != "" {
		playHost(t)
		return
	}
	host := exec.Command(os.Args[0], "-test.run=^TestPluginDiesWithItsHost$")
	host.Env = append(os.Environ(), hostRole+"=1")
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "plugin "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		t.Fatal("the host did not start the plugin")
	}
	host.Process.Kill()
	host.Wait()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !alive(pid) {
			return
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the plugin outlives its host")
}

// alive reports whether the process runs; one that nobody has waited for yet does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

func playHost(t *testing.T) {
	_, stop, err := sdktest.Launch(context.Background(), os.Args[0], sdktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var children []string
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range tasks {
		raw, _ := os.ReadFile(file)
		children = append(children, strings.Fields(string(raw))...)
	}
	if len(children) != 1 {
		t.Fatalf("the children are %q", children)
	}
	os.Stdout.WriteString("\nplugin " + children[0] + "\n") //nolint:forbidigo // the parent reads it
	time.Sleep(time.Minute)
}
