package watch

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// heldAge is how old the sum of what descriptors hold may be: to look for it takes a while.
const heldAge = 50 * time.Millisecond

// held is what processes hold by descriptors alone, in bytes: nothing else shows it.
type held struct {
	unnamed int64 // files that memfd_create made, where they can be read: the agent's own hold output
	buffers int64 // of pipes and sockets: what they have or could have
}

// descriptors are the distinct things behind those of several processes.
type descriptors struct {
	files          map[uint64]int64 // their sizes
	pipes, sockets map[uint64]bool
}

func (m *procMeter) open(all []process) held {
	if time.Since(m.heldAge) < heldAge {
		return m.held
	}
	d := descriptors{files: map[uint64]int64{}, pipes: map[uint64]bool{}, sockets: map[uint64]bool{}}
	for _, p := range all {
		d.add(m.root + "/" + p.pid + "/fd")
	}
	m.held = held{buffers: pipeBytes(int64(len(d.pipes)), softPipes()) + socketBytes(d.sockets)}
	for _, size := range d.files {
		m.held.unnamed += size
	}
	m.heldAge = time.Now()
	return m.held
}

func (d descriptors) add(folder string) {
	dir, err := os.Open(folder) //nolint:gosec // a number below /proc
	if err != nil {
		return
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		path := folder + "/" + name
		if target, err := os.Readlink(path); err == nil {
			d.addOne(path, target)
		}
	}
}

func (d descriptors) addOne(path, target string) {
	const blockSize = 512
	switch kind, number, _ := strings.Cut(target, ":"); {
	case kind == "socket":
		d.sockets[inode(number)] = true
	case kind == "pipe":
		d.pipes[inode(number)] = true
	case kind == "/memfd":
		var info unix.Stat_t
		if unix.Stat(path, &info) == nil {
			d.files[info.Ino] = info.Blocks * blockSize
		}
	case strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/"):
		var info unix.Statx_t // of what is known already: not for a server that does not answer
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &info)
		if err == nil && info.Mode&unix.S_IFMT == unix.S_IFIFO {
			d.pipes[info.Ino] = true
		}
	}
}

// inode reads what stands in a descriptor's target, such as "[123]".
func inode(text string) uint64 {
	n, _ := strconv.ParseUint(strings.Trim(text, "[]"), 10, 64)
	return n
}

// pipeBytes is what so many pipes can hold. All pipes of a user together get the usual size up to a soft limit
// only, and then two pages each.
func pipeBytes(pipes, soft int64) int64 {
	const usual, least = 64 << 10, 8 << 10
	if soft == 0 {
		return pipes * usual
	}
	return min(pipes*usual, soft+pipes*least)
}

// softPipes is that limit in bytes, 0 for none.
func softPipes() int64 {
	text, _ := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft")
	pages, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return pages * int64(os.Getpagesize())
}
