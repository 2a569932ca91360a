//go:build unix

package folders

import (
	"os"
	"syscall"

	"github.com/boxwright/boxwright/core"
)

const logFile = "log"

// Log makes the box's file for what its processes complain of. They hold the box while one of them has it
// open: whoever starts them gives it to them as standard error, and closes it. So IsHeld knows of them before
// they have told anybody about themselves, and also if nobody is left to be told.
func (b Boxes) Log(id string) (*os.File, error) {
	file, err := os.OpenFile(b.Store.Path(id, logFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "the box has no log: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX); err != nil {
		_ = file.Close() // nothing was written
		return nil, core.Errorf(core.ErrInternal, "the box's log cannot be locked: %w", err)
	}
	return file, nil
}

// IsHeld reports whether a process still has the box's log open.
func (b Boxes) IsHeld(id string) bool {
	file, err := os.Open(b.Store.Path(id, logFile))
	if err != nil {
		return false // nothing was ever started
	}
	defer func() { _ = file.Close() }() // with its lock
	return flock(file, syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// flock locks what the file's descriptors share: the lock ends with the last of them.
func flock(file *os.File, how int) error {
	return syscall.Flock(int(file.Fd()), how)
}
