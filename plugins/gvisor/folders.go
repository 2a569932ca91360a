package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/filelock"
)

// folders are where the backend keeps things. Other plugins, of other servers, may use the same
// ones at the same time: files appear whole or not at all, and what needs more takes a lock.
type folders struct {
	state string // boxes, volumes, agents and runsc's own
	cache string // images
}

// foldersOf follows the XDG rules, for root too.
func foldersOf(s Settings, getenv func(string) string) (folders, error) {
	if s.Dir != "" {
		return folders{state: s.Dir, cache: filepath.Join(s.Dir, "cache")}, nil
	}
	below := func(variable string, usual ...string) string {
		if dir := getenv(variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, "boxwright", "gvisor")
		}
		if home := getenv("HOME"); filepath.IsAbs(home) {
			return filepath.Join(append(append([]string{home}, usual...), "boxwright", "gvisor")...)
		}
		return ""
	}
	f := folders{state: below("XDG_STATE_HOME", ".local", "state"), cache: below("XDG_CACHE_HOME", ".cache")}
	if f.state == "" || f.cache == "" {
		return f, core.Errorf(core.ErrUnavailable, "there is no folder to keep boxes in: neither HOME nor XDG_STATE_HOME and XDG_CACHE_HOME say where").
			WithHint("set backends.gvisor.settings.dir")
	}
	return f, nil
}

func (f folders) boxes() string              { return filepath.Join(f.state, "boxes") }
func (f folders) box(id string) string       { return filepath.Join(f.boxes(), id) }
func (f folders) volumes() string            { return filepath.Join(f.state, "volumes") }
func (f folders) volume(name string) string  { return filepath.Join(f.volumes(), name) }
func (f folders) agents() string             { return filepath.Join(f.state, "agents") }
func (f folders) runsc() string              { return filepath.Join(f.state, "runsc") }
func (f folders) layer(hex string) string    { return filepath.Join(f.cache, "layers", hex) }
func (f folders) image(hex string) string    { return filepath.Join(f.cache, "images", hex) }
func (f folders) ref(hex string) string      { return filepath.Join(f.cache, "refs", hex+".json") }
func (f folders) scratch() string            { return filepath.Join(f.cache, "scratch") }
func (f folders) data(volume string) string  { return filepath.Join(f.volume(volume), "data") }
func (f folders) record(box string) string   { return filepath.Join(f.box(box), "box.json") }
func (f folders) volumeFile(n string) string { return filepath.Join(f.volume(n), "volume.json") }

// private is the mode of all of the backend's folders: nobody else looks into boxes.
const private = 0o700

// make makes the folders that everything else is made in.
func (f folders) make() error {
	for _, dir := range []string{
		f.state, f.boxes(), f.volumes(), f.agents(), f.runsc(),
		f.cache, f.layer(""), f.image(""), filepath.Join(f.cache, "refs"), f.scratch(),
	} {
		if err := os.MkdirAll(dir, private); err != nil {
			return core.Errorf(core.ErrUnavailable, "the folder for boxes cannot be made: %w", err).
				WithHint("make %s writable for this user, or set backends.gvisor.settings.dir", f.state)
		}
		if err := own(dir); err != nil {
			return err
		}
	}
	// The folders may be older than the plugin.
	return errors.Join(os.Chmod(f.state, private), os.Chmod(f.cache, private))
}

// own refuses a folder that somebody else could put something into: what lies there is run.
func own(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return core.Errorf(core.ErrUnavailable, "the folder for boxes cannot be used: %s: %w", dir, err)
	}
	var err *core.Error
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = core.Errorf(core.ErrDenied, "%s is not a folder, but a link", dir)
	case int(stat.Uid) != os.Geteuid():
		err = core.Errorf(core.ErrDenied, "the folder %s belongs to user %d, and boxes would run what that user puts there", dir, stat.Uid)
	default:
		return nil
	}
	return err.WithHint("set backends.gvisor.settings.dir to a folder of this user's")
}

// temporary begins the names of folders that are being made.
const temporary = ".new-"

// clearTemporary removes what somebody left who died while he made a folder. The caller has the
// lock under which folders are made there.
func clearTemporary(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
	for _, folder := range left {
		err = errors.Join(err, removeTree(folder))
	}
	return err
}

// lock takes a lock among all plugins that use the folder.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	return filelock.Lock(ctx, filepath.Join(dir, ".lock"))
}

// writeJSON makes the file, whole or not at all.
func writeJSON(file string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(file, raw, 0o600)
}

// writeFile makes the file, whole or not at all.
func writeFile(file string, content []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it is not there any more when all went well
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// maxRecord bounds the backend's own files, in bytes.
const maxRecord = 1 << 20

func readJSON(file string, into any) error {
	raw, err := os.ReadFile(file) //nolint:gosec // below the backend's own folder
	if err != nil {
		return err
	}
	if len(raw) > maxRecord {
		return core.Errorf(core.ErrInternal, "%s is too long", file)
	}
	return json.Unmarshal(raw, into)
}
