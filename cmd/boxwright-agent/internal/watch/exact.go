package watch

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// folders are those in which a box keeps files in memory.
func folders() []string {
	return []string{core.GuestWork, core.GuestTmp, core.GuestHome, "/dev/shm"}
}

// exact counts what several processes share once: their parts of it, and what no process has mapped.
func (m *procMeter) exact(all []process) int64 {
	var private int64
	var shared sharing
	for _, p := range all {
		rollup, err := os.ReadFile(m.root + "/" + p.pid + "/smaps_rollup")
		if err != nil { // it made itself unreadable, or is gone
			now, _ := m.read(p.pid)
			private += now.rss
			continue
		}
		private += kilobytes(rollup, "Pss_Anon:") + kilobytes(rollup, "SwapPss:")
		if kilobytes(rollup, "Pss_Shmem:") > 0 {
			smaps, _ := os.ReadFile(m.root + "/" + p.pid + "/smaps")
			shared.add(smaps)
		}
	}
	open := m.open(all)
	return private + shared.anonymous + max(shared.unnamed, open.unnamed) + open.buffers + tmpfsBytes() + detached()
}

// sharing is memory that processes have mapped in common, each with its part of it.
type sharing struct {
	anonymous int64 // and of System V
	unnamed   int64 // files that memfd_create made
}

// add takes a process's mappings. Files in the box's folders are left out: they count with their folder.
func (s *sharing) add(smaps []byte) {
	const nameField = 5
	var to *int64
	for line := range bytes.Lines(smaps) {
		fields := bytes.Fields(line)
		switch {
		case len(fields) > nameField && bytes.IndexByte(fields[0], '-') > 0:
			to = s.place(string(fields[1]), string(fields[nameField]))
		case len(fields) >= 5 && bytes.IndexByte(fields[0], '-') > 0:
			to = nil // without a name: private
		case to != nil && len(fields) > 1 && string(fields[0]) == "Pss:":
			n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			*to += n << 10
		}
	}
}

// place returns where a mapping counts, nil for nowhere.
func (s *sharing) place(mode, name string) *int64 {
	switch {
	case !strings.HasSuffix(mode, "s"):
		return nil
	case strings.HasPrefix(name, "/memfd:"):
		return &s.unnamed
	case name == "/dev/zero", strings.HasPrefix(name, "/SYSV"), name == "[anon_shmem", strings.HasPrefix(name, "[anon_shmem:"):
		return &s.anonymous
	}
	return nil
}

// tmpfsBytes is what lies in the box's folders, as far as they are in memory. A folder that is a part of
// another's file system counts once.
func tmpfsBytes() (sum int64) {
	const inode = 1 << 10 // what the kernel needs for a file with nothing in it
	seen := map[uint64]bool{}
	for _, folder := range folders() {
		var info unix.Stat_t
		var system unix.Statfs_t
		if unix.Stat(folder, &info) != nil || seen[info.Dev] || unix.Statfs(folder, &system) != nil || system.Type != unix.TMPFS_MAGIC {
			continue
		}
		seen[info.Dev] = true
		sum += int64(system.Blocks-system.Bfree)*system.Bsize + int64(system.Files-system.Ffree)*inode //nolint:gosec // fewer than there is memory
	}
	return sum
}

// detached is what System V's segments have that no process has attached, its queues and its semaphores: all of
// it stays.
func detached() int64 {
	const message, semaphore = 64, 64 // bytes of the kernel's for each
	segments := eachIPC("shm", func(n []int64) int64 {
		const attached, rss = 6, 14
		if len(n) <= rss || n[attached] != 0 {
			return 0
		}
		return n[rss]
	})
	const size, number = 3, 4
	queues := eachIPC("msg", func(n []int64) int64 { return n[size] + n[number]*message })
	return segments + queues + eachIPC("sem", func(n []int64) int64 { return n[size] * semaphore })
}

// eachIPC sums what of says about the numbers of each line of a table of System V's.
func eachIPC(table string, of func(numbers []int64) int64) (sum int64) {
	const least = 5
	text, err := os.ReadFile("/proc/sysvipc/" + table) //nolint:gosec // one of three
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var numbers []int64
		for field := range bytes.FieldsSeq(line) {
			n, _ := strconv.ParseInt(string(field), 10, 64) // the heading is zeros
			numbers = append(numbers, n)
		}
		if len(numbers) >= least {
			sum += of(numbers)
		}
	}
	return sum
}
