package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"
)

// runUsage is what is known of one run when it is measured.
type runUsage struct {
	run    string
	newest time.Time
	bytes  int64
	busy   bool // a file of it is just being written
}

// Sweep implements artifact.Store. It also removes what a crash left half written.
func (s *Artifacts) Sweep(ctx context.Context, before time.Time, maxBytes int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.measure(ctx); err != nil {
		return 0, err
	}
	return s.removeOldest(before, maxBytes)
}

func (s *Artifacts) removeOldest(before time.Time, maxBytes int64) (removed int, err error) {
	runs := s.room.oldest
	for i, r := range runs {
		if !r.newest.Before(before) && (maxBytes == 0 || s.room.used <= maxBytes) {
			break
		}
		s.room.oldest = runs[i+1:]
		if failed := s.evict(r); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		removed++
	}
	return removed, err
}

// usage measures a run and removes its remains of crashes. found is false if nothing is left of it.
func (s *Artifacts) usage(run string) (u runUsage, found bool) {
	folder, err := s.root.OpenRoot(run)
	if err != nil {
		return u, false
	}
	defer func() { _ = folder.Close() }()
	u.run = run
	s.measureOpen(folder, &u)
	for _, entry := range entries(folder, knownDir) {
		measureKnown(folder, path.Join(knownDir, entry.Name()), &u)
	}
	if u.newest.IsZero() {
		u.seen(young(folder, "."))
	}
	if !u.newest.IsZero() || u.busy {
		return u, true
	}
	if err := s.remove(run); err != nil {
		s.log.Warn("a run without files could not be removed", "run", run, "error", err)
	}
	return u, false
}

func (u *runUsage) seen(at time.Time) {
	if at.After(u.newest) {
		u.newest = at
	}
}

// measureKnown adds a file by its record. A record without its file is removed, unless it is young:
// another server may be about to move the file to its place.
func measureKnown(folder *os.Root, record string, u *runUsage) {
	k, err := readKnown(folder, record)
	var info fs.FileInfo
	if err == nil {
		info, err = folder.Lstat(path.Join(filesDir, k.Name))
	}
	if err == nil {
		u.bytes += info.Size()
		u.seen(k.Created)
		return
	}
	if at := young(folder, record); !at.IsZero() {
		u.seen(at)
	} else if !u.busy {
		_ = folder.Remove(record)
	}
}

// young is when the entry was changed if that was lately, and else zero.
func young(folder *os.Root, name string) time.Time {
	info, err := folder.Lstat(name)
	if err != nil || time.Since(info.ModTime()) >= staleAfter {
		return time.Time{}
	}
	return info.ModTime()
}

// measureOpen adds files that are being written, and removes those that nobody writes any more.
func (s *Artifacts) measureOpen(folder *os.Root, u *runUsage) {
	for _, entry := range entries(folder, openDir) {
		file := path.Join(openDir, entry.Name())
		info, err := folder.Lstat(file)
		switch {
		case err != nil:
		case time.Since(info.ModTime()) < staleAfter:
			u.busy = true
			u.bytes += info.Size()
		default:
			if err := folder.Remove(file); err != nil {
				s.log.Warn("a half-written file could not be removed", "file", file, "error", err)
			}
		}
	}
}
