//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/filelock"
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

// take waits for the turn. Where no file can be locked, the other processes are not waited for.
func (t turn) take(ctx context.Context) (leave func(), err error) {
	select {
	case t.mine <- struct{}{}:
	case <-ctx.Done():
		return nil, core.ContextError(ctx)
	}
	unlock, err := filelock.Lock(ctx, t.file)
	switch {
	case err == nil:
		return func() { unlock(); <-t.mine }, nil
	case ctx.Err() != nil:
		<-t.mine
		return nil, core.ContextError(ctx)
	}
	return func() { <-t.mine }, nil
}
