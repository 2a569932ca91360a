//go:build unix

package folders

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits for the lock that the file stands for; it ends with the process at the latest.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in the store's own folder
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil // closing unlocks
}
