// Package disk keeps artifacts, the index of environments and the installation's identity in
// folders of this host. Several servers may share them.
//
// Names come from programs in boxes: every path goes through os.Root, so that neither a name nor
// a link that somebody planted leads out of the folder.
package disk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// The folders of a run: what people open, and what the store knows of it. The second also marks
// the run's folder as the store's own: it never touches another.
const (
	filesDir = "files"
	ownDir   = ".boxwright"
	knownDir = ownDir + "/known"
	openDir  = ownDir + "/open"
)

// staleAfter is when a file that is still being written is taken for the remains of a crash. No
// run's files take that long to be collected.
const staleAfter = time.Hour

// ArtifactOptions adjusts a store. The zero value is right for most.
type ArtifactOptions struct {
	Log      *slog.Logger // nil: nowhere
	MaxBytes int64        // of all kept files together: the oldest runs go before it is exceeded; 0: no bound
}

// Artifacts is an artifact.Store. It keeps the file NAME of a run as RUN/files/NAME, so that a
// person finds it.
type Artifacts struct {
	dir  string
	root *os.Root
	log  *slog.Logger

	mu   sync.Mutex      // held while folders are made or removed
	open map[string]bool // run/name of this process's writers
	room room
}

// NewArtifacts opens the store in dir and makes the folder if it is missing. Close releases it.
func NewArtifacts(dir string, options ArtifactOptions) (*Artifacts, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fault("the folder for files", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault("the folder for files", err)
	}
	return &Artifacts{dir: dir, root: root, log: logger(options.Log), open: map[string]bool{}, room: room{max: options.MaxBytes}}, nil
}

func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// Close releases the folder. Files that are open stay so.
func (s *Artifacts) Close() error { return s.root.Close() }

// Create implements artifact.Store.
func (s *Artifacts) Create(ctx context.Context, run, name string) (artifact.Writer, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[run+"/"+name] {
		return nil, exists(run, name)
	}
	if err := s.claim(run); err != nil {
		return nil, err
	}
	folder, err := s.root.OpenRoot(run)
	if err != nil {
		return nil, fault("the folder of run "+run, err)
	}
	if _, err := folder.Lstat(path.Join(filesDir, name)); err == nil {
		_ = folder.Close()
		return nil, exists(run, name)
	}
	temporary := path.Join(openDir, rand.Text())
	f, err := folder.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		_ = folder.Close()
		return nil, fault("a file of run "+run, err)
	}
	s.open[run+"/"+name] = true
	return &writer{store: s, ctx: context.WithoutCancel(ctx), folder: folder, file: f, temporary: temporary, run: run, name: name, sum: sha256.New()}, nil
}

// claim makes the run's folder, or finds that it is the store's own.
func (s *Artifacts) claim(run string) error {
	err := s.root.Mkdir(run, 0o700)
	if errors.Is(err, fs.ErrExist) && !s.owns(run) {
		return core.Errorf(core.ErrInvalid, "the folder for files has a %q that is not a run's", run)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = s.root.MkdirAll(run+"/"+openDir, 0o700)
	}
	if err == nil {
		err = s.root.MkdirAll(run+"/"+knownDir, 0o700)
	}
	return fault("the folder of run "+run, err)
}

// owns reports whether the entry is the folder of a run of this store.
func (s *Artifacts) owns(run string) bool {
	for _, dir := range []string{run, run + "/" + ownDir} {
		if info, err := s.root.Lstat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// Open implements artifact.Store.
func (s *Artifacts) Open(_ context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, core.Artifact{}, err
	}
	folder, err := s.folder(run)
	if err != nil {
		return nil, core.Artifact{}, unknown(run, name, err)
	}
	defer func() { _ = folder.Close() }()
	k, err := readKnown(folder, knownFile(name))
	if err != nil || k.Name != name {
		return nil, core.Artifact{}, unknown(run, name, err)
	}
	f, info, err := openRegular(folder, path.Join(filesDir, name))
	if err != nil {
		return nil, core.Artifact{}, unknown(run, name, err)
	}
	return f, s.artifact(run, k, info), nil
}

// folder opens the folder of a run.
func (s *Artifacts) folder(run string) (*os.Root, error) {
	if !s.owns(run) {
		return nil, fs.ErrNotExist
	}
	return s.root.OpenRoot(run)
}

// openRegular opens a regular file, and nothing that a link leads to. A file that is replaced at this
// moment is looked at again.
func openRegular(folder *os.Root, name string) (f *os.File, info fs.FileInfo, err error) {
	const tries = 20
	for range tries {
		f, info, err = openSeen(folder, name)
		if !errors.Is(err, errReplaced) {
			return f, info, err
		}
	}
	return nil, nil, fs.ErrNotExist
}

// replacedError says that a name led to another file when it was opened than just before.
type replacedError string

func (e replacedError) Error() string { return string(e) }

const errReplaced replacedError = "the file was replaced"

func openSeen(folder *os.Root, name string) (*os.File, fs.FileInfo, error) {
	seen, err := folder.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = errReplaced
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// artifact says what is known of a file. Someone may have edited it since: the size is the file's.
func (s *Artifacts) artifact(run string, k known, info fs.FileInfo) core.Artifact {
	a := core.Artifact{
		Run: run, Name: k.Name, Size: info.Size(), MIMEType: k.MIMEType, SHA256: k.SHA256, Created: k.Created,
		URI: core.ArtifactURI(run, k.Name), Location: filepath.Join(s.dir, run, filesDir, filepath.FromSlash(k.Name)),
	}
	if info.Size() != k.Size {
		a.SHA256 = ""
	}
	return a
}

// List implements artifact.Store.
func (s *Artifacts) List(_ context.Context, run string) ([]core.Artifact, error) {
	if core.CheckRunID(run) != nil {
		return nil, nil
	}
	folder, err := s.folder(run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fault("the folder of run "+run, err)
	}
	defer func() { _ = folder.Close() }()
	var list []core.Artifact
	for _, entry := range entries(folder, knownDir) {
		k, err := readKnown(folder, path.Join(knownDir, entry.Name()))
		if err != nil {
			s.log.Warn("what is known of a file cannot be read", "run", run, "entry", entry.Name(), "error", err)
			continue
		}
		info, err := folder.Lstat(path.Join(filesDir, k.Name))
		if err == nil && info.Mode().IsRegular() {
			list = append(list, s.artifact(run, k, info))
		}
	}
	slices.SortFunc(list, func(a, b core.Artifact) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// entries lists a folder; one that is not there has none.
func entries(root *os.Root, dir string) []fs.DirEntry {
	list, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil
	}
	return list
}

// Remove implements artifact.Store.
func (s *Artifacts) Remove(_ context.Context, run string) error {
	if core.CheckRunID(run) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.measured = false
	return s.remove(run)
}

// remove takes the record of each file away first: what is half removed is not listed.
func (s *Artifacts) remove(run string) error {
	if !s.owns(run) {
		return nil
	}
	for _, part := range []string{knownDir, filesDir, ""} {
		if err := s.root.RemoveAll(path.Join(run, part)); err != nil {
			return fault("the folder of run "+run, err)
		}
	}
	return nil
}

func exists(run, name string) error {
	return core.Errorf(core.ErrInvalid, "run %s has a file %q already", run, name)
}

// unknown is for a file that is not there, unless err is about something else.
func unknown(run, name string, err error) error {
	if err == nil || isMissing(err) {
		return core.Errorf(core.ErrNotFound, "run %q has no file %q", run, name).
			WithHint("files are removed when they are old or when room is needed")
	}
	return fault("a file of run "+run, err)
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// fault gives an error of the file system its kind; nil stays nil.
func fault(what string, err error) error {
	var already *core.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return core.Errorf(core.ErrExhausted, "%s cannot be written, as the disk is full: %w", what, err).WithHint("make room, or lower files.max_bytes")
	case errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTEMPTY):
		return core.Errorf(core.ErrInvalid, "%s has the name of a folder, or one of its folders has the name of a file: %w", what, err)
	case errors.Is(err, fs.ErrPermission):
		return core.Errorf(core.ErrUnavailable, "%s cannot be used: %w", what, err).WithHint("let the server's user read and write it, or set another folder")
	default:
		return core.Errorf(core.ErrUnavailable, "%s cannot be used: %w", what, err)
	}
}
