package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// process is one of the host's that belongs to a box.
type process struct {
	pid     int
	uid     int
	box     string
	sandbox bool // it is the box's kernel
	tunnel  bool // it is the box's way out
}

// processesOf finds the processes of boxes that a user's plugins started, by their command lines:
// runsc ends each with the box's id, and what the backend starts besides does so too. Process ids
// are not kept anywhere, as they are used again. Any user can give a process of his such a command
// line, and so only one user's count.
func processesOf(uid int) []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	var found []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := look(pid); ok && p.uid == uid {
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
	p, ok := recognise(strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"))
	if !ok {
		return process{}, false
	}
	p.pid = pid
	p.uid, ok = owner(pid)
	return p, ok
}

// recognise tells whose a command line is: the tunnel's, that of runsc's two processes, or that
// which starts a box. What an operator has runsc do with a box is his.
func recognise(args []string) (process, bool) {
	program, last := path.Base(args[0]), args[len(args)-1]
	if tunnel, ok := strings.CutPrefix(program, tunnelName); ok {
		return process{box: tunnel, tunnel: true}, isID(tunnel)
	}
	p := process{box: last, sandbox: program == "runsc-sandbox"}
	return p, isID(last) && (p.sandbox || program == "runsc-gofer" || startsBox(args, last))
}

// owner is the user that a process is wholly of. One that runs with the rights of two, as
// set-user-ID programs do, is nobody's.
func owner(pid int) (uid int, ok bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		if list, ok := strings.CutPrefix(line, "Uid:"); ok {
			ids := slices.Compact(strings.Fields(list)) // real, effective, saved, of the file system
			uid, err := strconv.Atoi(ids[0])
			return uid, err == nil && len(ids) == 1
		}
	}
	return 0, false
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

// processes are those of this user's plugins.
func (b *Backend) processes() []process { return processesOf(b.machine.uid) }

// killAll ends all processes of a box, and returns when they are gone.
func (b *Backend) killAll(ctx context.Context, id string) error {
	for {
		pids := b.machine.cgroups.members(id)
		for _, p := range b.processes() {
			if p.box == id {
				pids = append(pids, p.pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
		slices.Sort(pids)
		for _, pid := range slices.Compact(pids) { // each is in a group of each controller
			if err := kill(pid, func() bool { return b.belongs(pid, id) }); errors.Is(err, fs.ErrPermission) {
				return core.Errorf(core.ErrDenied, "process %d of the box cannot be ended: the machine forbids it", pid)
			}
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// belongs reports whether a process is one of a box's now.
func (b *Backend) belongs(pid int, id string) bool {
	p, ok := look(pid)
	return ok && p.box == id && p.uid == b.machine.uid || slices.Contains(b.machine.cgroups.members(id), pid)
}

// kill ends a process if it is still meant. It is asked for again once there is a handle on it: its
// id may have become another's since it was found, and what has a handle never becomes another.
func kill(pid int, meant func() bool) error {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // the process is not a child
	if !meant() {
		return nil
	}
	return handle.Kill()
}
