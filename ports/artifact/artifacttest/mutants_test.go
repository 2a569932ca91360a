package artifacttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// fake keeps files in a map. broken names the one promise that it breaks; "" is none.
type fake struct {
	broken string
	limit  int64
	mu     sync.Mutex
	used   int64
	files  []*fakeFile
}

type fakeFile struct {
	store *fake
	core.Artifact
	content     bytes.Buffer // not embedded: its WriteString would go past Write
	done, ended bool
}

func (f *fake) is(broken string) bool { return f.broken == broken }

func (f *fake) find(run, name string) *fakeFile {
	for _, file := range f.files {
		if file.Run == run && file.Name == name {
			return file
		}
	}
	return nil
}

func (f *fake) Create(_ context.Context, run, name string) (artifact.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := core.CheckArtifact(run, name)
	switch {
	case f.is("names") && core.CheckRunID(run) == nil, f.is("runs") && core.CheckPath(name) == nil:
		err = nil
	case f.is("strange names") && strings.ContainsAny(name, " '"):
		err = core.Errorf(core.ErrInvalid, "a strange name")
	case f.find(run, name) != nil && !f.is("twice"):
		err = core.Errorf(core.ErrInvalid, "exists")
	}
	if err != nil {
		return nil, err
	}
	file := &fakeFile{store: f, Artifact: core.Artifact{Run: run, Name: name}, done: f.is("commit")}
	if f.is("twice") {
		f.files = slices.DeleteFunc(f.files, func(old *fakeFile) bool { return old.Run == run && old.Name == name })
	}
	f.files = append(f.files, file)
	return file, nil
}

func (file *fakeFile) Write(p []byte) (int, error) {
	f := file.store
	f.mu.Lock()
	defer f.mu.Unlock()
	f.makeRoom(file.Run, int64(len(p)))
	if f.limit > 0 && f.used+int64(len(p)) > f.limit && !f.is("full") {
		return 0, core.Errorf(core.ErrExhausted, "full")
	}
	f.used += int64(len(p))
	return file.content.Write(p)
}

func (f *fake) makeRoom(writing string, n int64) {
	newest := f.newest()
	delete(newest, writing)
	for !f.is("room") && f.limit > 0 && f.used+n > f.limit && len(newest) > 0 && !f.is("full") {
		oldest := f.oldest(newest)
		f.drop(func(file *fakeFile) bool { return file.Run == oldest && file.done })
		delete(newest, oldest)
	}
}

func (file *fakeFile) Commit(mimeType string) (core.Artifact, error) {
	f := file.store
	f.mu.Lock()
	defer f.mu.Unlock()
	if file.ended {
		return core.Artifact{}, core.Errorf(core.ErrInternal, "ended")
	}
	if mimeType == "" || f.is("mime") {
		mimeType = core.MIMETypeOf(file.Name, file.content.Bytes())
	}
	sum := sha256.Sum256(file.content.Bytes())
	a := &file.Artifact
	a.Size, a.MIMEType, a.SHA256, a.Created = int64(file.content.Len()), mimeType, hex.EncodeToString(sum[:]), time.Now()
	a.URI = core.ArtifactURI(a.Run, a.Name)
	file.done, file.ended = true, true
	if f.is("record") {
		a.SHA256 = ""
	}
	return *a, nil
}

func (file *fakeFile) Abort() {
	f := file.store
	f.mu.Lock()
	defer f.mu.Unlock()
	if file.ended && !f.is("abort") {
		return
	}
	file.ended = true
	f.drop(func(other *fakeFile) bool { return other == file })
}

func (f *fake) drop(which func(*fakeFile) bool) {
	f.files = slices.DeleteFunc(f.files, func(file *fakeFile) bool {
		if which(file) {
			f.used -= int64(file.content.Len())
			return true
		}
		return false
	})
}

type fakeReader struct{ *bytes.Reader }

func (fakeReader) Close() error { return nil }

func (f *fake) Open(_ context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.find(run, name)
	if file == nil || !file.done {
		if f.is("open unknown") && core.CheckArtifact(run, name) == nil {
			return fakeReader{bytes.NewReader(nil)}, core.Artifact{}, nil
		}
		return nil, core.Artifact{}, core.Errorf(core.ErrNotFound, "unknown")
	}
	content := bytes.Clone(file.content.Bytes())
	if f.is("open") && len(content) == 10 {
		content = content[1:]
	}
	return fakeReader{bytes.NewReader(content)}, file.Artifact, nil
}

func (f *fake) List(_ context.Context, run string) ([]core.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Artifact
	for _, file := range f.files {
		if file.done && file.Run == run {
			list = append(list, file.Artifact)
		}
	}
	if !f.is("list") {
		slices.SortFunc(list, func(a, b core.Artifact) int { return strings.Compare(a.Name, b.Name) })
	}
	return list, nil
}

func (f *fake) Remove(_ context.Context, run string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("remove") && !slices.ContainsFunc(f.files, func(file *fakeFile) bool { return file.Run == run }) && !strings.HasPrefix(run, "none") {
		return core.Errorf(core.ErrNotFound, "unknown")
	}
	f.drop(func(file *fakeFile) bool { return file.Run == run && file.done })
	return nil
}

// newest is each run's newest file.
func (f *fake) newest() map[string]time.Time {
	newest := map[string]time.Time{}
	for _, file := range f.files {
		if file.done && (file.Created.After(newest[file.Run]) != f.is("sweep by age") || newest[file.Run].IsZero()) {
			newest[file.Run] = file.Created
		}
	}
	return newest
}

func (f *fake) oldest(newest map[string]time.Time) (oldest string) {
	for run := range newest {
		if oldest == "" || newest[run].Before(newest[oldest]) != f.is("sweep by size") {
			oldest = run
		}
	}
	return oldest
}

func (f *fake) Sweep(_ context.Context, before time.Time, maxBytes int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("sweep open") {
		f.drop(func(file *fakeFile) bool { return !file.done })
	}
	newest := f.newest()
	removed := 0
	for len(newest) > 0 {
		oldest := f.oldest(newest)
		if !newest[oldest].Before(before) && (maxBytes == 0 || f.used <= maxBytes) {
			break
		}
		f.drop(func(file *fakeFile) bool { return file.Run == oldest && file.done })
		delete(newest, oldest)
		removed++
	}
	return removed, nil
}

func harness(broken string) Harness {
	return Harness{
		New:   func(*testing.T) artifact.Store { return &fake{broken: broken} },
		Small: func(*testing.T) artifact.Store { return &fake{broken: broken, limit: 100} },
	}
}

func TestFakeKeepsEveryPromise(t *testing.T) { Run(t, harness("")) }

// TestTeeth breaks one promise at a time: its check must notice.
func TestTeeth(t *testing.T) {
	also := map[string][]string{ // checks that rest on the promise of another
		"commit":        {"twice", "abort", "sweep open", "concurrent"},
		"names":         {"twice"},
		"runs":          {"twice", "names"},
		"abort":         {"record", "open", "list", "mime", "remove", "sweep by age", "sweep by size", "strange names", "twice", "concurrent", "full", "commit", "open unknown", "sweep open", "room"},
		"open unknown":  {"commit", "remove"},
		"sweep open":    {"concurrent"},
		"list":          {"full", "room"},
		"full":          {"room"},
		"sweep by size": {"sweep by age", "room"}, // it takes the newest run for the oldest
	}
	for _, broken := range Checks() {
		if broken.Name == "concurrent" {
			continue // the race detector is its teeth
		}
		t.Run(broken.Name, func(t *testing.T) {
			h := harness(broken.Name)
			for _, check := range Checks() {
				faults := check.Faults(t, h)
				switch {
				case check.Name == broken.Name && len(faults) == 0:
					t.Errorf("the check noticed nothing")
				case check.Name != broken.Name && len(faults) > 0 && !slices.Contains(also[broken.Name], check.Name):
					t.Errorf("the check %q failed too: %s", check.Name, faults[0])
				}
			}
		})
	}
}
