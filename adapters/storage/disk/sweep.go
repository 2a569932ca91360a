package disk

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// runUsage is what a sweep knows of one run.
type runUsage struct {
	run    string
	newest time.Time
	bytes  int64
}

// Sweep implements artifact.Store. It also removes what a crash left half written.
func (s *Artifacts) Sweep(ctx context.Context, before time.Time, maxBytes int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var runs []runUsage
	var total int64
	for _, entry := range entries(s.root, ".") {
		if err := ctx.Err(); err != nil {
			return 0, core.Errorf(core.ErrCancelled, "the sweep was given up: %w", err)
		}
		run := entry.Name()
		if !entry.IsDir() || core.CheckRunID(run) != nil || !s.owns(run) {
			continue
		}
		usage, keep := s.usage(run)
		if keep {
			runs = append(runs, usage)
			total += usage.bytes
		}
	}
	slices.SortFunc(runs, func(a, b runUsage) int {
		return cmp.Or(a.newest.Compare(b.newest), strings.Compare(a.run, b.run))
	})
	return s.removeOldest(runs, total, before, maxBytes)
}

func (s *Artifacts) removeOldest(runs []runUsage, total int64, before time.Time, maxBytes int64) (removed int, err error) {
	for _, r := range runs {
		if !r.newest.Before(before) && (maxBytes == 0 || total <= maxBytes) {
			break
		}
		if failed := s.remove(r.run); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		total -= r.bytes
		removed++
	}
	return removed, err
}

// usage measures a run and removes its remains of crashes. keep is false if nothing is left of
// it, or if a file of it is just being written.
func (s *Artifacts) usage(run string) (u runUsage, keep bool) {
	folder, err := s.root.OpenRoot(run)
	if err != nil {
		return u, false
	}
	defer func() { _ = folder.Close() }()
	busy := s.cleanOpen(folder)
	u.run = run
	for _, entry := range entries(folder, knownDir) {
		file := path.Join(knownDir, entry.Name())
		k, err := readKnown(folder, file)
		if err != nil {
			_ = folder.Remove(file)
			continue
		}
		info, err := folder.Lstat(path.Join(filesDir, k.Name))
		if err != nil {
			_ = folder.Remove(file)
			continue
		}
		u.bytes += info.Size()
		if k.Created.After(u.newest) {
			u.newest = k.Created
		}
	}
	if !u.newest.IsZero() || busy {
		return u, !busy
	}
	if err := s.remove(run); err != nil {
		s.log.Warn("a run without files could not be removed", "run", run, "error", err)
	}
	return u, false
}

// cleanOpen removes files that nobody writes any more; busy tells that somebody may still write one.
func (s *Artifacts) cleanOpen(folder *os.Root) (busy bool) {
	for _, entry := range entries(folder, openDir) {
		file := path.Join(openDir, entry.Name())
		info, err := folder.Lstat(file)
		switch {
		case err != nil:
		case time.Since(info.ModTime()) < staleAfter:
			busy = true
		default:
			if err := folder.Remove(file); err != nil {
				s.log.Warn("a half-written file could not be removed", "file", file, "error", err)
			}
		}
	}
	return busy
}
