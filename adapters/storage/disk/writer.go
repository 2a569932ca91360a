package disk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/boxwright/boxwright/core"
)

// maxRecord bounds a small JSON file of ours, in bytes.
const maxRecord = 1 << 20

// known is what the store remembers of a file.
type known struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	MIMEType string    `json:"mime_type"`
	SHA256   string    `json:"sha256"`
	Created  time.Time `json:"created"`
}

// knownFile is where a file's record is: names are too long and too strange to be used again.
func knownFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(knownDir, hex.EncodeToString(sum[:16])+".json")
}

func readKnown(folder *os.Root, file string) (known, error) {
	var k known
	if err := readJSON(folder, file, &k); err != nil {
		return known{}, err
	}
	if knownFile(k.Name) != file || core.CheckPath(k.Name) != nil {
		return known{}, errors.New("the record is of another file")
	}
	return k, nil
}

func readJSON(root *os.Root, file string, into any) error {
	f, _, err := openRegular(root, file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// writeJSON replaces the file at once: a reader sees the old one or the new one. There is no
// fsync: after a crash of the host a record may be lost, and is then treated as absent.
func writeJSON(root *os.Root, file, temporary string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	err = root.WriteFile(temporary, text, 0o600)
	if err == nil {
		err = root.Rename(temporary, file)
	}
	if err != nil {
		_ = root.Remove(temporary)
	}
	return err
}

// writer is used by one goroutine.
type writer struct {
	store     *Artifacts
	ctx       context.Context //nolint:containedctx // an io.Writer gets none; it carries values, never an end
	folder    *os.Root        // the run's
	file      *os.File
	temporary string // below folder
	run, name string

	sum   hash.Hash
	size  int64
	head  []byte // the first bytes, to find the type
	ended bool
}

// headSize is how many bytes tell a file's type.
const headSize = 512

func (w *writer) Write(p []byte) (int, error) {
	if w.ended {
		return 0, core.Errorf(core.ErrInternal, "write to file %q after its end", w.name)
	}
	if err := w.store.take(w.ctx, w.run, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := w.file.Write(p)
	w.size += int64(n)
	if n < len(p) {
		w.store.mu.Lock()
		w.store.give(int64(len(p) - n))
		w.store.mu.Unlock()
	}
	w.sum.Write(p[:n])
	if room := headSize - len(w.head); room > 0 {
		w.head = append(w.head, p[:min(n, room)]...)
	}
	return n, fault("a file of run "+w.run, err)
}

// Commit writes the record first and moves the file last: a record without its file is not
// listed, so the move is the moment.
func (w *writer) Commit(mimeType string) (core.Artifact, error) {
	if w.ended {
		return core.Artifact{}, core.Errorf(core.ErrInternal, "commit of file %q after its end", w.name)
	}
	defer w.Abort()
	if mimeType == "" {
		mimeType = core.MIMETypeOf(w.name, w.head)
	}
	info, err := w.file.Stat()
	if err == nil {
		err = w.file.Close()
	}
	if err != nil {
		return core.Artifact{}, fault("a file of run "+w.run, err)
	}
	k := known{Name: w.name, Size: w.size, MIMEType: mimeType, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Created: time.Now().UTC()}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if err := w.place(k); err != nil {
		return core.Artifact{}, err
	}
	w.end()
	return w.store.artifact(w.run, k, info), nil
}

func (w *writer) place(k known) error {
	final := path.Join(filesDir, w.name)
	if _, err := w.folder.Lstat(final); err == nil {
		return exists(w.run, w.name)
	}
	record := knownFile(w.name)
	err := writeJSON(w.folder, record, path.Join(openDir, rand.Text()), k)
	if err == nil {
		err = w.folder.MkdirAll(path.Dir(final), 0o700)
	}
	if err == nil {
		err = w.folder.Rename(w.temporary, final)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.ErrUnavailable, "file %q cannot be kept, as its run was removed meanwhile", w.name)
	}
	if err != nil {
		_ = w.folder.Remove(record)
	}
	return fault("file "+w.name+" of run "+w.run, err)
}

// Abort leaves nothing, not even the folder of a run that has no other file.
func (w *writer) Abort() {
	if w.ended {
		return
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.abort()
}

func (w *writer) abort() {
	_ = w.file.Close()
	_ = w.folder.Remove(w.temporary)
	w.store.give(w.size)
	w.end()
	// A folder that is not empty stays: Remove refuses.
	for _, dir := range []string{openDir, knownDir, filesDir, ownDir, ""} {
		_ = w.store.root.Remove(path.Join(w.run, dir))
	}
}

// end releases the name. The caller holds the store's lock.
func (w *writer) end() {
	w.ended = true
	delete(w.store.open, w.run+"/"+w.name)
	_ = w.folder.Close()
}
