package watch

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// folders are those in which a box keeps files in memory.
func folders() []string {
	return []string{core.GuestWork, core.GuestTmp, core.GuestHome, "/dev/shm"}
}

// unnamedAge is how old the sum of the files without a name may be: to look for them takes a while.
const unnamedAge = 50 * time.Millisecond

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
	return private + shared.anonymous + max(shared.unnamed, m.unnamed(all)) + tmpfsBytes() + detached()
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
	seen := map[uint64]bool{}
	for _, folder := range folders() {
		var info unix.Stat_t
		var system unix.Statfs_t
		if unix.Stat(folder, &info) != nil || seen[info.Dev] || unix.Statfs(folder, &system) != nil || system.Type != unix.TMPFS_MAGIC {
			continue
		}
		seen[info.Dev] = true
		sum += int64(system.Blocks-system.Bfree) * system.Bsize //nolint:gosec // fewer than there is memory
	}
	return sum
}

// unnamed is the size of the files that memfd_create made and that a process has open: nothing else shows
// what is written to them. The agent's own, which hold output, are among them only where they can be read.
func (m *procMeter) unnamed(all []process) int64 {
	if time.Since(m.hiddenAge) < unnamedAge {
		return m.hidden
	}
	sizes := map[uint64]int64{}
	for _, p := range all {
		m.openFiles(p.pid, sizes)
	}
	m.hidden, m.hiddenAge = 0, time.Now()
	for _, size := range sizes {
		m.hidden += size
	}
	return m.hidden
}

func (m *procMeter) openFiles(pid string, sizes map[uint64]int64) {
	const blockSize = 512
	dir, err := os.Open(m.root + "/" + pid + "/fd") //nolint:gosec // a number below /proc
	if err != nil {
		return
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		path := dir.Name() + "/" + name
		if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, "/memfd:") {
			continue
		}
		var info unix.Stat_t
		if unix.Stat(path, &info) == nil {
			sizes[info.Ino] = info.Blocks * blockSize
		}
	}
}

// detached is the size of System V's segments that no process has attached; they stay.
func detached() (sum int64) {
	const attached, rss = 6, 14
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) <= rss || string(fields[attached]) != "0" {
			continue
		}
		n, _ := strconv.ParseInt(string(fields[rss]), 10, 64)
		sum += n
	}
	return sum
}
