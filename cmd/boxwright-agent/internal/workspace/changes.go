package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// Bounds of what is told about a run.
const (
	maxFiles     = 1000
	maxNameBytes = 1 << 20
	maxNamed     = 10 // names in warnings
)

// clockGrain is how much older than the clock a file's time can be.
const clockGrain = 20 * time.Millisecond

// Changes are what a run did to the workspace.
type Changes struct {
	Files    []core.FileInfo // by path
	Warnings []string
}

// Changes compares the workspace with what it was.
func (w *Workspace) Changes(before *Snapshot) Changes {
	w.Reclaim()
	after := walk(w.dir, maxEntries, maxDepth)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = nil
	return diff(before, after)
}

func diff(before, after *Snapshot) Changes {
	var c Changes
	var special, long, more int
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(after.entries)) {
		e := after.entries[name]
		switch {
		case e.is(unix.S_IFDIR) || !before.lacks(name, e):
		case !e.is(unix.S_IFREG):
			if special++; special <= maxNamed {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%s is %s and is not returned", show(name), kindOf(e)))
			}
		case len(name) > maxPath:
			long++
		case len(c.Files) == maxFiles || bytes+len(name) > maxNameBytes:
			more++
		default:
			bytes += len(name)
			c.Files = append(c.Files, core.FileInfo{Path: name, Size: e.size})
		}
	}
	c.count(special-maxNamed, "more links and special files are not returned")
	c.count(long, "files have paths that are too long and are not returned")
	c.count(more, "more changed files are not returned; put them into one archive")
	for i, name := range after.closed {
		if i == maxNamed {
			break
		}
		c.Warnings = append(c.Warnings, show(name)+" could not be searched for changed files")
	}
	if after.cut {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the workspace is too large to be searched for changed files as a whole: more than %d entries or %d levels", maxEntries, maxDepth))
	}
	return c
}

// lacks reports whether e is new or different. What was not seen before, because there was too much,
// is judged by its change time.
func (s *Snapshot) lacks(name string, e entry) bool {
	old, ok := s.entries[name]
	if ok || !s.cut {
		return old != e
	}
	return !time.Unix(e.ctime.Unix()).Before(s.at.Add(-clockGrain))
}

func (c *Changes) count(n int, what string) {
	if n > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d %s", n, what))
	}
}

func kindOf(e entry) string {
	switch {
	case e.is(unix.S_IFLNK):
		return "a symbolic link"
	case e.is(unix.S_IFIFO):
		return "a fifo"
	case e.is(unix.S_IFSOCK):
		return "a socket"
	}
	return "a device"
}

// Outside watches a folder whose files are not returned.
type Outside struct {
	dir    string
	before *Snapshot
}

// Bounds of the look into such a folder.
const (
	outsideEntries = 1000
	outsideDepth   = 2
)

// Watch remembers what is in dir.
func Watch(dir string) *Outside {
	return &Outside{dir: dir, before: walk(dir, outsideEntries, outsideDepth)}
}

// Warning names the files that have come since, or is empty. Hidden ones are caches and such.
func (o *Outside) Warning() string {
	after := walk(o.dir, outsideEntries, outsideDepth)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(after.entries)) {
		e := after.entries[name]
		hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
		if e.is(unix.S_IFREG) && !hidden && o.before.lacks(name, e) {
			names = append(names, show(o.dir+"/"+name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	and := ""
	if more := len(names) - maxNamed; more > 0 {
		names, and = names[:maxNamed], fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("written outside the workspace and not returned: %s%s; write below %s to get files back",
		strings.Join(names, ", "), and, core.GuestWork)
}

// show makes a name fit for a sentence.
func show(name string) string {
	const most = 100
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return name
}
