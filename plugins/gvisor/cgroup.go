package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups are the machine's control groups, as far as this user may use them.
type cgroups struct {
	Root    string // /sys/fs/cgroup
	Unified bool   // version 2
	Memory  bool
	CPU     bool
	PIDs    bool
}

// cgroupParent is the group that all boxes' groups are in.
const cgroupParent = "boxwright"

// findCgroups looks at what is below root. Only root's plugin uses control groups: an ordinary
// user's are delegated by a session manager, if at all, and runsc does not follow that.
func findCgroups(root string, uid int) cgroups {
	c := cgroups{Root: root}
	if uid != 0 {
		return c
	}
	var stat unix.Statfs_t
	if unix.Statfs(root, &stat) != nil {
		return c
	}
	c.Unified = stat.Type == unix.CGROUP2_SUPER_MAGIC
	if c.Unified {
		raw, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers")) //nolint:gosec // a file of the kernel's
		has := func(name string) bool { return strings.Contains(" "+strings.TrimSpace(string(raw))+" ", " "+name+" ") }
		writable := unix.Access(root, unix.W_OK) == nil
		c.Memory, c.CPU, c.PIDs = writable && has("memory"), writable && has("cpu"), writable && has("pids")
		return c
	}
	writable := func(name string) bool {
		return unix.Access(filepath.Join(root, name, "cgroup.procs"), unix.W_OK) == nil
	}
	c.Memory, c.CPU, c.PIDs = writable("memory"), writable("cpu"), writable("pids")
	return c
}

func (c cgroups) any() bool { return c.Memory || c.CPU || c.PIDs }

// path is a box's group as runsc takes it.
func (c cgroups) path(id string) string { return "/" + cgroupParent + "/" + id }

// folders are those of one box: with version 1, there is one for each controller.
func (c cgroups) folders(id string) []string {
	if !c.any() {
		return nil
	}
	if c.Unified {
		return []string{filepath.Join(c.Root, cgroupParent, id)}
	}
	found, _ := filepath.Glob(filepath.Join(c.Root, "*", cgroupParent, id)) // the pattern is well-formed
	return found
}

// oomKilled reports whether the kernel killed something of the box's for want of memory.
func (c cgroups) oomKilled(id string) bool {
	files := []string{filepath.Join(c.Root, "memory", cgroupParent, id, "memory.oom_control")}
	if c.Unified {
		files = []string{filepath.Join(c.Root, cgroupParent, id, "memory.events")}
	}
	for _, file := range files {
		raw, err := os.ReadFile(file) //nolint:gosec // a file of the kernel's
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if name, count, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" && count != "0" {
				return true
			}
		}
	}
	return false
}

// members are the processes in the box's groups.
func (c cgroups) members(id string) []int {
	var pids []int
	for _, dir := range c.folders(id) {
		raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) //nolint:gosec // a file of the kernel's
		for line := range strings.Lines(string(raw)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// groupTries bounds how often the removal of a group is tried: it fails while processes end.
const groupTries = 100

// remove removes the box's groups, which have no processes any more.
func (c cgroups) remove(id string) error {
	var last error
	for _, dir := range c.folders(id) {
		for range groupTries {
			last = unix.Rmdir(dir)
			if last == nil || last == unix.ENOENT {
				last = nil
				break
			}
			time.Sleep(retryPause)
		}
		if last != nil {
			return last
		}
	}
	return nil
}
