package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// EnvironmentOptions adjusts an index. The zero value is right for most.
type EnvironmentOptions struct {
	Log *slog.Logger // nil: nowhere
}

// Environments is a dependency.Index: one file for each environment, KEY.json.
type Environments struct {
	root *os.Root
	log  *slog.Logger
}

// environmentRecord is the file's form. Its names stay when the noun's change.
type environmentRecord struct {
	Key     string    `json:"key"`
	Backend string    `json:"backend,omitempty"`
	Volume  string    `json:"volume"`
	Names   []string  `json:"names"`
	Report  string    `json:"report,omitempty"`
	Created time.Time `json:"created"`
}

// NewEnvironments opens the index in dir and makes the folder if it is missing. Close releases it.
func NewEnvironments(dir string, options EnvironmentOptions) (*Environments, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fault("the folder of environments", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault("the folder of environments", err)
	}
	return &Environments{root: root, log: logger(options.Log)}, nil
}

// Close releases the folder.
func (x *Environments) Close() error { return x.root.Close() }

// Get implements dependency.Index. A file that cannot be read counts as absent: the environment
// is then installed anew.
func (x *Environments) Get(_ context.Context, key string) (core.Environment, error) {
	e, err := x.read(key)
	if err != nil {
		return core.Environment{}, core.Errorf(core.ErrNotFound, "no environment %q is installed", key)
	}
	return e, nil
}

func (x *Environments) read(key string) (core.Environment, error) {
	if !isKey(key) {
		return core.Environment{}, core.ErrNotFound
	}
	var r environmentRecord
	err := readJSON(x.root, key+".json", &r)
	if err == nil && (r.Key != key || r.Volume == "") {
		err = errors.New("it is of another environment, or half of one")
	}
	if err != nil && !isMissing(err) {
		x.log.Warn("the record of an installed environment cannot be read; it counts as absent", "key", key, "error", err)
	}
	return core.Environment(r), err
}

// Put implements dependency.Index.
func (x *Environments) Put(_ context.Context, e core.Environment) error {
	if !isKey(e.Key) {
		return core.Errorf(core.ErrInvalid, "%q is not the key of an environment", e.Key)
	}
	return fault("the record of an environment", writeJSON(x.root, e.Key+".json", temporaryPrefix+rand.Text(), environmentRecord(e)))
}

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = ".new-"

// Delete implements dependency.Index.
func (x *Environments) Delete(_ context.Context, key string) error {
	if !isKey(key) {
		return nil
	}
	if err := x.root.Remove(key + ".json"); err != nil && !isMissing(err) {
		return fault("the record of an environment", err)
	}
	return nil
}

// List implements dependency.Index. It also removes what a crash left half written.
func (x *Environments) List(context.Context) ([]core.Environment, error) {
	list := []core.Environment{}
	for _, entry := range entries(x.root, ".") {
		name := entry.Name()
		if strings.HasPrefix(name, temporaryPrefix) {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = x.root.Remove(name)
			}
			continue
		}
		key, isRecord := strings.CutSuffix(name, ".json")
		if !isRecord {
			continue
		}
		if e, err := x.read(key); err == nil {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b core.Environment) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

func isKey(key string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`).MatchString(key)
}
