package disk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// Instance is one server process of the installation that a state folder stands for. Several
// may run at once, as when two programs on a desktop each start their own; each must know which
// of the others still live, so that it removes only what dead ones left.
type Instance struct {
	ID     string // of the installation: made once, and kept in the state folder
	Server string // of this process; random

	root *os.Root
	lock *os.File // locked as long as the process lives, whatever way it ends
}

const (
	instanceFile = "instance"
	serversDir   = "servers"
	lockSuffix   = ".lock"
	forgetAfter  = 24 * time.Hour
)

// OpenInstance takes part in the installation of the state folder, and makes the folder if it
// is missing. Close ends that; so does the end of the process.
func OpenInstance(stateDir string) (*Instance, error) {
	err := os.MkdirAll(filepath.Join(stateDir, serversDir), 0o700)
	if err != nil {
		return nil, fault("the state folder", err)
	}
	root, err := os.OpenRoot(stateDir)
	if err != nil {
		return nil, fault("the state folder", err)
	}
	i := &Instance{root: root, Server: newID()}
	if i.ID, err = installationID(root); err == nil {
		i.lock, err = takeLock(root, lockFile(i.Server))
	}
	if err != nil {
		_ = root.Close()
		return nil, fault("the state folder", err)
	}
	i.forgetDead()
	return i, nil
}

// newID is random, and short enough for labels and names of volumes.
func newID() string { return strings.ToLower(rand.Text()[:20]) }

func lockFile(server string) string { return serversDir + "/" + server + lockSuffix }

// installationID reads the id, or makes it. Of two processes that make one at the same time,
// the link of the first stays and both read it.
func installationID(root *os.Root) (string, error) {
	if id, err := readID(root); err == nil || !isMissing(err) {
		return id, err
	}
	temporary := instanceFile + "." + newID()
	if err := root.WriteFile(temporary, []byte(newID()+"\n"), 0o600); err != nil {
		return "", err
	}
	defer func() { _ = root.Remove(temporary) }()
	if err := root.Link(temporary, instanceFile); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readID(root)
}

// secretBytes is how long a secret is.
const secretBytes = 32

// Secret reads a secret of the installation from a file of its name in the state folder that nobody else may read,
// and makes it if there is none. Of two processes that make one at the same time, the first's stays.
func (i *Instance) Secret(name string) ([]byte, error) {
	secret, err := readSecret(i.root, name)
	if err == nil || !isMissing(err) {
		return secret, err
	}
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails
	temporary := name + "." + newID()
	if err := i.root.WriteFile(temporary, made, 0o600); err != nil {
		return nil, fault("the state folder", err)
	}
	defer func() { _ = i.root.Remove(temporary) }()
	if err := i.root.Link(temporary, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fault("the state folder", err)
	}
	return readSecret(i.root, name)
}

func readSecret(root *os.Root, name string) ([]byte, error) {
	secret, err := root.ReadFile(name)
	if err == nil && len(secret) != secretBytes {
		err = core.Errorf(core.ErrInvalid, "the file %q in the state folder does not hold a secret", name).
			WithHint("remove the file: another is made, and what the old one signed is no longer good")
	}
	return secret, err
}

func readID(root *os.Root) (string, error) {
	text, err := root.ReadFile(instanceFile)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if core.CheckRunID(id) != nil {
		return "", core.Errorf(core.ErrInvalid, "the file %q in the state folder does not hold an id", instanceFile).
			WithHint("remove the file: things made under the old id are then no longer found")
	}
	return id, nil
}

// takeLock makes the file and locks it. A process that just took the new file for a dead one's
// may have removed it before it was locked: then there is another try.
func takeLock(root *os.Root, name string) (*os.File, error) {
	for {
		f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f, unix.LOCK_EX); err != nil {
			_ = f.Close()
			return nil, err
		}
		if sameFile(root, name, f) {
			return f, nil
		}
		_ = f.Close()
	}
}

func sameFile(root *os.Root, name string, f *os.File) bool {
	there, err := root.Lstat(name)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(there, here)
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Alive reports whether the server process still runs. One that nobody knows does not.
func (i *Instance) Alive(server string) bool {
	if server == i.Server {
		return true
	}
	if core.CheckRunID(server) != nil {
		return false
	}
	f, _, err := openRegular(i.root, lockFile(server))
	if err != nil {
		return !isMissing(err) // what cannot be told is taken for life: nothing is removed by mistake
	}
	defer func() { _ = f.Close() }()
	return flock(f, unix.LOCK_SH|unix.LOCK_NB) != nil
}

// forgetDead removes the locks that killed servers left. Nothing else changes: one that nobody knows is
// dead just the same.
func (i *Instance) forgetDead() {
	for _, entry := range entries(i.root, serversDir) {
		server, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		info, err := entry.Info()
		// A file that was made this moment may not be locked yet.
		if isLock && err == nil && time.Since(info.ModTime()) > forgetAfter && !i.Alive(server) {
			_ = i.root.Remove(lockFile(server))
		}
	}
}

// Close gives up this process's part: for the others it is dead from now on.
func (i *Instance) Close() error {
	err := i.root.Remove(lockFile(i.Server))
	if isMissing(err) {
		err = nil
	}
	return errors.Join(err, i.lock.Close(), i.root.Close())
}
