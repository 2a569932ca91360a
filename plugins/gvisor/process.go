package gvisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// process is one of the host's that belongs to a box.
type process struct {
	pid     int
	box     string
	sandbox bool // it is the box's kernel
}

// processes finds the processes of boxes by their command lines: runsc ends each with the box's
// id, which nobody can guess, and what the backend starts besides does so too. Process ids are
// not kept anywhere, as they are used again.
func processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	var found []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := look(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

// look reads one process's command line. A process that has ended, but whom nobody has asked
// about yet, has none.
func look(pid int) (process, bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(raw) == 0 {
		return process{}, false
	}
	args := bytes.Split(bytes.TrimSuffix(raw, []byte{0}), []byte{0})
	program, last := path.Base(string(args[0])), string(args[len(args)-1])
	if tunnel, ok := strings.CutPrefix(program, tunnelName); ok && isID(tunnel) {
		return process{pid: pid, box: tunnel}, true
	}
	ours := strings.HasPrefix(program, "runsc") || strings.HasPrefix(program, "exe") || strings.HasPrefix(program, stageName)
	if !ours || !isID(last) {
		return process{}, false
	}
	return process{pid: pid, box: last, sandbox: program == "runsc-sandbox"}, true
}

// running tells which boxes have a kernel.
func running(all []process) map[string]bool {
	boxes := map[string]bool{}
	for _, p := range all {
		if p.sandbox {
			boxes[p.box] = true
		}
	}
	return boxes
}

// killAll ends all processes of a box, and returns when they are gone.
func (c cgroups) killAll(ctx context.Context, id string) error {
	for {
		pids := c.members(id)
		for _, p := range processes() {
			if p.box == id {
				pids = append(pids, p.pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); errors.Is(err, unix.EPERM) {
				return core.Errorf(core.ErrDenied, "a process of the box cannot be ended: it belongs to another user")
			}
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
