//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/core"
)

// turn has one container made at a time, among all plugins of this user's on this machine. Podman (4.3 does) locks
// the volumes of a container that it makes one after the other, in no order: two containers that share two volumes
// may wait for each other for ever, and then the whole service does.
type turn struct {
	file string
	mine chan struct{} // full while this process has it
}

func newTurn() turn {
	name := fmt.Sprintf("boxwright-podman-%d.lock", os.Getuid())
	return turn{file: filepath.Join(os.TempDir(), name), mine: make(chan struct{}, 1)}
}

// turnPoll is how often a turn that another process has is asked for.
const turnPoll = 3 * time.Millisecond

// take waits for the turn. Where no file can be locked, the other processes are not waited for.
func (t turn) take(ctx context.Context) (leave func(), err error) {
	select {
	case t.mine <- struct{}{}:
	case <-ctx.Done():
		return nil, core.ContextError(ctx)
	}
	file, err := os.OpenFile(t.file, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return func() { <-t.mine }, nil
	}
	leave = func() {
		_ = file.Close() // which unlocks it
		<-t.mine
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return leave, nil
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			leave()
			return nil, core.ContextError(ctx)
		}
	}
}
