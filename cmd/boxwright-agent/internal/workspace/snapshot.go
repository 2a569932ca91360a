package workspace

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a walk.
const (
	maxEntries = 20000
	maxDepth   = 64
)

// The name of a file that the host has not finished writing is not one of the code's.
const (
	partPrefix = ".boxwright-"
	partSuffix = ".part"
)

// Snapshot is what lies in a folder at one moment.
type Snapshot struct {
	entries map[string]entry
	cut     bool     // not everything was seen
	closed  []string // folders that could not be read
	at      time.Time
}

// entry is what tells that a file was changed. The change time catches what sets the others back.
type entry struct {
	mode         uint32
	size         int64
	inode        uint64
	mtime, ctime unix.Timespec
}

func entryOf(stat *unix.Stat_t) entry {
	return entry{mode: stat.Mode, size: stat.Size, inode: stat.Ino, mtime: stat.Mtim, ctime: stat.Ctim}
}

func (e entry) is(kind uint32) bool { return e.mode&unix.S_IFMT == kind }

// Snapshot walks the workspace, and remembers the walk as the beginning of a run until the next one.
func (w *Workspace) Snapshot() *Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = walk(w.dir, maxEntries, maxDepth)
	return w.since
}

// walker goes by folders' descriptors and never by paths, so that neither links nor very deep trees
// lead it astray.
type walker struct {
	snapshot *Snapshot
	left     int
	flat     bool // what lies in folders is not looked at
}

func walk(dir string, entries, depth int) *Snapshot {
	s := &Snapshot{entries: map[string]entry{}, at: time.Now()}
	w := &walker{snapshot: s, left: entries}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.closed = append(s.closed, dir)
		return s
	}
	w.folder(os.NewFile(uintptr(fd), dir), "", depth)
	return s
}

// folder takes over dir.
func (w *walker) folder(dir *os.File, prefix string, depth int) {
	defer dir.Close() //nolint:errcheck // only read
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if w.left--; w.left < 0 {
				w.snapshot.cut = true
				return
			}
			w.visit(dir, prefix, name, depth)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.snapshot.closed = append(w.snapshot.closed, prefix)
			return
		}
	}
}

func (w *walker) visit(dir *os.File, prefix, name string, depth int) {
	if strings.HasPrefix(name, partPrefix) && strings.HasSuffix(name, partSuffix) {
		return
	}
	e, err := look(dir, name)
	if err != nil {
		return // gone meanwhile
	}
	w.snapshot.entries[prefix+name] = e
	if !e.is(unix.S_IFDIR) || w.flat {
		return
	}
	if depth <= 1 {
		w.snapshot.cut = true
		return
	}
	folder, err := openFolder(dir, name)
	if err != nil {
		w.snapshot.closed = append(w.snapshot.closed, prefix+name)
		return
	}
	w.folder(folder, prefix+name+"/", depth-1)
}
