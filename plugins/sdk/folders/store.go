// Package folders is for backends whose engine has no daemon that remembers labels and keeps volumes:
// it keeps both in folders, so that they are found again after a crash, by the next process. It knows
// no engine, and starts nothing.
package folders

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Store keeps records. Each is a folder Dir/NAME that has a file record.json; what else is in the
// folder is the caller's. A name becomes a part of a path: callers check those that come from outside.
// Several processes may use one Dir at the same time.
type Store struct {
	Dir string // absolute; made when it is needed
}

const (
	recordFile = "record.json"
	unfinished = ".new-"
)

// Path is where something of a record is.
func (s Store) Path(name string, inside ...string) string {
	return filepath.Join(append([]string{s.Dir, name}, inside...)...)
}

// Save makes a record, and empty folders in it. It is there as a whole or not at all. If the name is
// taken, what has it stays, and Save fails with core.ErrInvalid; other failures are core.ErrInternal.
func (s Store) Save(name string, record any, inside ...string) error {
	if err := s.save(name, record, inside); err != nil {
		if s.Has(name) {
			return core.Errorf(core.ErrInvalid, "there is a %s already", name)
		}
		return core.Errorf(core.ErrInternal, "%s cannot be saved: %w", name, err)
	}
	return nil
}

func (s Store) save(name string, record any, inside []string) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
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

// Load reads a record; false says that there is none of this name, or that what has it is not a record.
func (s Store) Load(name string, record any) bool {
	raw, err := os.ReadFile(s.Path(name, recordFile))
	return err == nil && json.Unmarshal(raw, record) == nil
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
	path := s.Path(name)
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	unlock(path)
	if err := os.RemoveAll(path); err != nil {
		return core.Errorf(core.ErrInternal, "%s cannot be removed: %w", name, err)
	}
	return nil
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
