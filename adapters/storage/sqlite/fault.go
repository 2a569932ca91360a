package sqlite

import (
	"context"
	"errors"
	"syscall"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/boxwright/boxwright/core"
)

// extended is SQLite's result code with its details, or 0.
func extended(err error) int {
	if failed, ok := errors.AsType[*driver.Error](err); ok {
		return failed.Code()
	}
	return 0
}

// code is SQLite's primary result code, or 0.
func code(err error) int { return extended(err) & 0xff }

func isBusy(err error) bool {
	c := code(err)
	return c == codes.SQLITE_BUSY || c == codes.SQLITE_LOCKED
}

// isCollision tells that what is to be unique exists already.
func isCollision(err error) bool {
	c := extended(err)
	return c == codes.SQLITE_CONSTRAINT_UNIQUE || c == codes.SQLITE_CONSTRAINT_PRIMARYKEY
}

// fault gives an error of SQLite's a kind, and has what depends on the disk tried anew at the next call.
func (d *DB) fault(ctx context.Context, err error) error {
	switch {
	case err == nil || core.HasKind(err):
		return err
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case d.closed.Load():
		return core.Errorf(core.ErrUnavailable, "the file %s is not open any more", d.path)
	}
	switch code(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return d.busy(err)
	case codes.SQLITE_TOOBIG:
		return core.Errorf(core.ErrInvalid, "what is to be kept is too large: %w", err)
	case codes.SQLITE_NOMEM:
		return core.Errorf(core.ErrExhausted, "no memory is left to read or write %s: %w", d.path, err)
	case codes.SQLITE_FULL:
		d.renew()
		return d.full(err)
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		d.renew()
		return d.damaged(err)
	case codes.SQLITE_IOERR, codes.SQLITE_CANTOPEN, codes.SQLITE_READONLY, codes.SQLITE_PERM, codes.SQLITE_AUTH, codes.SQLITE_PROTOCOL:
		d.renew()
		return d.unusable(err)
	default:
		return core.Errorf(core.ErrInternal, "the file %s: %w", d.path, err)
	}
}

func (d *DB) busy(err error) error {
	return core.Errorf(core.ErrUnavailable, "the file %s is locked by another process: %w", d.path, err).
		WithHint("try again; if it stays so, look for a program that has the file open")
}

func (d *DB) damaged(err error) error {
	return core.Errorf(core.ErrUnavailable, "the file %s is damaged: %w", d.path, err).
		WithHint("stop all servers and move it away, with those beside it that end in -wal and -shm: its sessions, runs, environments, users and keys are then forgotten")
}

func (d *DB) full(err error) error {
	return core.Errorf(core.ErrExhausted, "no room is left on the disk of %s: %w", d.path, err).
		WithHint("make room; the next call tries again")
}

func (d *DB) unusable(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return d.full(err)
	}
	return core.Errorf(core.ErrUnavailable, "the file %s cannot be read or written: %w", d.path, err).
		WithHint("see to it that its folder exists and is this user's, and that the disk is not read-only; the next call tries again")
}
