package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	codes "modernc.org/sqlite/lib"

	"github.com/boxwright/boxwright/core"
)

// Backup writes a copy of the file, as it is at one moment, to a new file that only its owner can read. Servers may
// have it open, and go on. There is a whole copy or none. A file that is missing is core.ErrNotFound, and a copy
// that would be in place of something core.ErrInvalid.
func Backup(ctx context.Context, path, to string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.ErrNotFound, "there is no file %s: no server has kept anything in it", path)
	}
	d := &DB{path: path}
	if err := d.connect(Options{Wait: defaultWait}); err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	part, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".part-*") // nobody else may read it
	if err != nil {
		return notWritten(to, err)
	}
	defer func() { _ = os.Remove(part.Name()) }()
	if err := d.copyTo(ctx, part); err != nil {
		_ = part.Close()
		return err
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return notWritten(to, err)
	}
	return place(part.Name(), to)
}

// copyTo has SQLite write to the file, which is empty.
func (d *DB) copyTo(ctx context.Context, part *os.File) error {
	if _, err := d.version(ctx, d.read); err != nil && core.KindOf(err) != core.ErrUnsupported {
		return err // a newer Boxwright's can be copied just as well
	}
	_, err := d.read.ExecContext(ctx, "VACUUM INTO $1", part.Name())
	if c := code(err); c == codes.SQLITE_FULL || c == codes.SQLITE_IOERR || c == codes.SQLITE_CANTOPEN {
		return notWritten(part.Name(), err)
	}
	return d.fault(ctx, err)
}

// place gives the copy its name, unless something has that.
func place(part, to string) error {
	err := os.Link(part, to)
	if errors.Is(err, fs.ErrExist) {
		return core.Errorf(core.ErrInvalid, "there is a file %s already", to).WithHint("name a new file")
	}
	if err != nil {
		return notWritten(to, err)
	}
	return nil
}

func notWritten(to string, err error) error {
	return core.Errorf(core.ErrUnavailable, "the copy %s cannot be written: %w", to, err).
		WithHint("see to it that its folder exists and is this user's, and that there is room")
}
