// Package memory keeps artifacts, the index of environments, sessions and runs in the server's memory: for
// tests, and for operators who want nothing on disk. All is lost when the process ends.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// Artifacts is an artifact.Store.
type Artifacts struct {
	limit int64
	mu    sync.Mutex
	used  int64
	runs  map[string]map[string]stored
}

// stored is a file; one without content is being written.
type stored struct {
	known   core.Artifact
	content []byte
	done    bool
}

// NewArtifacts returns an empty store that keeps at most limit bytes: the oldest runs go before it is
// exceeded. 0 is no bound.
func NewArtifacts(limit int64) *Artifacts {
	return &Artifacts{limit: limit, runs: map[string]map[string]stored{}}
}

// Create implements artifact.Store.
func (s *Artifacts) Create(_ context.Context, run, name string) (artifact.Writer, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.runs[run][name]; exists {
		return nil, core.Errorf(core.ErrInvalid, "run %s has a file %q already", run, name)
	}
	if s.runs[run] == nil {
		s.runs[run] = map[string]stored{}
	}
	s.runs[run][name] = stored{}
	return &writer{store: s, run: run, name: name}, nil
}

// Open implements artifact.Store.
func (s *Artifacts) Open(_ context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.runs[run][name]
	if !file.done {
		return nil, core.Artifact{}, core.Errorf(core.ErrNotFound, "run %q has no file %q", run, name)
	}
	return reader{bytes.NewReader(file.content)}, file.known, nil
}

// reader needs no closing.
type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// List implements artifact.Store.
func (s *Artifacts) List(_ context.Context, run string) ([]core.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []core.Artifact
	for _, file := range s.runs[run] {
		if file.done {
			list = append(list, file.known)
		}
	}
	slices.SortFunc(list, func(a, b core.Artifact) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Remove implements artifact.Store.
func (s *Artifacts) Remove(_ context.Context, run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(run)
	return nil
}

// remove leaves the files that are being written.
func (s *Artifacts) remove(run string) {
	for name, file := range s.runs[run] {
		if file.done {
			s.used -= int64(len(file.content))
			delete(s.runs[run], name)
		}
	}
	s.tidy(run)
}

func (s *Artifacts) tidy(run string) {
	if len(s.runs[run]) == 0 {
		delete(s.runs, run)
	}
}

// Sweep implements artifact.Store.
func (s *Artifacts) Sweep(_ context.Context, before time.Time, maxBytes int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removed := 0
	runs, newest := s.oldest()
	for _, run := range runs {
		if !newest[run].Before(before) && (maxBytes == 0 || s.used <= maxBytes) {
			break
		}
		s.remove(run)
		removed++
	}
	return removed, nil
}

// oldest lists the runs that have files, by their newest.
func (s *Artifacts) oldest() (runs []string, newest map[string]time.Time) {
	newest = map[string]time.Time{}
	for run, files := range s.runs {
		for _, file := range files {
			if file.done && file.known.Created.After(newest[run]) {
				newest[run] = file.known.Created
			}
		}
	}
	return slices.SortedFunc(maps.Keys(newest), func(a, b string) int {
		return cmp.Or(newest[a].Compare(newest[b]), strings.Compare(a, b))
	}), newest
}

// take reserves room. If there is too little, the oldest runs go, but never the one that is written.
func (s *Artifacts) take(writing string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && s.used+n > s.limit {
		s.makeRoom(writing, n)
	}
	if s.limit > 0 && s.used+n > s.limit {
		return core.Errorf(core.ErrExhausted, "the memory for files is full: at most %s are kept", core.FormatBytes(s.limit)).
			WithHint("let the program leave less; the operator keeps files on disk with storage.artifacts")
	}
	s.used += n
	return nil
}

func (s *Artifacts) makeRoom(writing string, n int64) {
	runs, _ := s.oldest()
	for _, run := range runs {
		if s.used+n <= s.limit {
			return
		}
		if run != writing {
			s.remove(run)
		}
	}
}

// writer is used by one goroutine.
type writer struct {
	store     *Artifacts
	run, name string
	content   bytes.Buffer
	ended     bool
}

func (w *writer) Write(p []byte) (int, error) {
	if w.ended {
		return 0, core.Errorf(core.ErrInternal, "write to file %q after its end", w.name)
	}
	if err := w.store.take(w.run, int64(len(p))); err != nil {
		return 0, err
	}
	return w.content.Write(p)
}

func (w *writer) Commit(mimeType string) (core.Artifact, error) {
	if w.ended {
		return core.Artifact{}, core.Errorf(core.ErrInternal, "commit of file %q after its end", w.name)
	}
	w.ended = true
	if mimeType == "" {
		mimeType = core.MIMETypeOf(w.name, w.content.Bytes()[:min(w.content.Len(), 512)])
	}
	sum := sha256.Sum256(w.content.Bytes())
	known := core.Artifact{
		Run: w.run, Name: w.name, Size: int64(w.content.Len()), MIMEType: mimeType,
		SHA256: hex.EncodeToString(sum[:]), URI: core.ArtifactURI(w.run, w.name), Created: time.Now().UTC(),
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.runs[w.run][w.name] = stored{known: known, content: w.content.Bytes(), done: true}
	return known, nil
}

func (w *writer) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.used -= int64(w.content.Len())
	delete(w.store.runs[w.run], w.name)
	w.store.tidy(w.run)
}
