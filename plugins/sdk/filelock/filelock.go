//go:build unix

// Package filelock is a lock among processes of one machine, for backends whose engine needs them to take turns.
// It is not for what other machines share.
package filelock

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// poll is how often a lock that somebody else holds is tried.
const poll = 5 * time.Millisecond

// Lock takes the lock that the file stands for, which is made if it is missing and stays; callers in one process
// exclude one another too. The lock ends with the process at the latest. If ctx ends before it is free, the error is
// core.ContextError's; any other is the system's.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600) //nolint:gosec // the caller's own
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			_ = file.Close() // it was not locked
			return nil, core.ContextError(ctx)
		}
	}
}
