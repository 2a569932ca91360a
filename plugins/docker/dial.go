package docker

import (
	"context"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// Dial implements execution.Backend: an exec of the agent's dial command, which is a pipe to the
// agent's socket.
func (b *Backend) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if !daemon.IsID(box) {
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	if err := e.checkMine(ctx, box); err != nil {
		return nil, e.dialError(ctx, err)
	}
	exec, err := e.api.ContainerExecCreate(ctx, box, container.ExecOptions{
		User:         fmt.Sprintf("%d:%d", core.DialUID, core.DialGID),
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Cmd:          []string{core.GuestAgent, "dial"},
	})
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	conn, err := e.attach(ctx, exec.ID)
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	stream := daemon.NewStream(conn.Conn, conn.Reader)
	if e.facts().sandbox {
		return e.endWith(box, stream), nil
	}
	return stream, nil
}

// attach starts the exec. The client does not look at ctx while it waits for the engine's
// answer, so it waits apart.
func (e *engine) attach(ctx context.Context, exec string) (types.HijackedResponse, error) {
	type result struct {
		conn types.HijackedResponse
		err  error
	}
	results, abandoned := make(chan result), make(chan struct{})
	go func() {
		conn, err := e.api.ContainerExecAttach(context.WithoutCancel(ctx), exec, container.ExecAttachOptions{})
		select {
		case results <- result{conn, err}:
		case <-abandoned:
			if err == nil {
				conn.Close()
			}
		}
	}()
	select {
	case r := <-results:
		return r.conn, r.err
	case <-ctx.Done():
		close(abandoned)
		return types.HijackedResponse{}, ctx.Err()
	}
}

func (e *engine) dialError(ctx context.Context, err error) error {
	switch {
	case cerrdefs.IsNotFound(err):
		return core.Errorf(core.ErrNotFound, "there is no such box")
	case cerrdefs.IsConflict(err):
		return core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	return e.fail(ctx, err, "the box could not be reached")
}
