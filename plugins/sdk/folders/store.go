// Package folders is for backends whose engine has no daemon that remembers labels and keeps volumes:
// it keeps both in folders, so that they are found again after a crash, by the next process. It knows
// no engine, and starts nothing.
package folders

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Store keeps records. Each is a folder Dir/NAME that has a file record.json; what else is in the
// folder is the caller's. A name becomes a part of a path: callers check those that come from outside.
// Several processes may use one Dir at the same time, and what one leaves that dies is cleared by the
// next that saves or removes something.
type Store struct {
	Dir string // absolute; made when it is needed
}

const (
	recordFile = "record.json"
	unfinished = ".new-"
	removed    = ".gone-"

	maxRecord = 1 << 20 // bytes
)

// Path is where something of a record is.
func (s Store) Path(name string, inside ...string) string {
	return filepath.Join(append([]string{s.Dir, name}, inside...)...)
}

// Save makes a record, and empty folders in it. It is there as a whole or not at all. If the name is
// taken, what has it stays, and Save fails with core.ErrInvalid; other failures are core.ErrInternal.
func (s Store) Save(name string, record any, inside ...string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if s.Has(name) {
		return core.Errorf(core.ErrInvalid, "there is a %s already", name)
	}
	return s.save(name, record, inside...)
}

// save is Save, for a name that is free. The caller has the lock.
func (s Store) save(name string, record any, inside ...string) error {
	_ = s.clear(unfinished) // the next one tries again
	if err := s.make(name, record, inside); err != nil {
		return core.Errorf(core.ErrInternal, "%s cannot be saved: %w", name, err)
	}
	return nil
}

func (s Store) make(name string, record any, inside []string) error {
	made, err := os.MkdirTemp(s.Dir, unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }() // it has been renamed, or is of no use
	for _, folder := range inside {
		if err := os.Mkdir(filepath.Join(made, folder), 0o700); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, recordFile), raw, 0o600); err != nil {
		return err
	}
	return os.Rename(made, s.Path(name))
}

// lock keeps others from saving and removing; it ends with the process. It is held for moments: what
// takes longer is done without it.
func (s Store) lock() (unlock func(), err error) {
	if err = os.MkdirAll(s.Dir, 0o700); err == nil {
		unlock, err = lockFile(filepath.Join(s.Dir, ".lock"))
	}
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "%s cannot be locked: %w", s.Dir, err)
	}
	return unlock, nil
}

// Load reads a record; false says that there is none of this name, or that what has it is not a record.
func (s Store) Load(name string, record any) bool {
	file, err := os.Open(s.Path(name, recordFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was only read
	return json.NewDecoder(io.LimitReader(file, maxRecord)).Decode(record) == nil
}

// Has reports whether anything has this name, a record or not.
func (s Store) Has(name string) bool {
	_, err := os.Lstat(s.Path(name))
	return err == nil
}

// Names lists what Load may find, in order.
func (s Store) Names() []string {
	var names []string
	entries, _ := os.ReadDir(s.Dir) // a folder that is not there is empty
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Remove removes the record and all that is in its folder, also what a box has locked there; an
// unknown one is no error. What cannot be removed is core.ErrInternal.
func (s Store) Remove(name string) error {
	return s.removeIf(name, func() error { return nil })
}

// removeIf is Remove, unless may, which is called with the lock, returns an error. The name is free
// at once, and then the files go without the lock, as there may be many.
func (s Store) removeIf(name string, may func() error) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	if err = may(); err == nil && s.Has(name) {
		err = os.Rename(s.Path(name), s.Path(removed+rand.Text()))
	}
	unlock()
	if err == nil {
		err = s.clear(removed)
	}
	var ours *core.Error
	if err != nil && !errors.As(err, &ours) {
		err = core.Errorf(core.ErrInternal, "%s cannot be removed: %w", name, err)
	}
	return err
}

// clear removes what has a name that begins so. Two may do it at the same time.
func (s Store) clear(prefix string) error {
	var failed []error
	entries, _ := os.ReadDir(s.Dir) // a folder that is not there is empty
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			failed = append(failed, removeAll(s.Path(e.Name())))
		}
	}
	return errors.Join(failed...)
}

func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	unlock(path)
	return os.RemoveAll(path)
}

// unlock gives back the rights on folders that somebody has taken away. It follows no links.
func unlock(path string) {
	_ = os.Chmod(path, 0o700) //nolint:gosec // a folder needs the x
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			unlock(filepath.Join(path, e.Name()))
		}
	}
}
