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

// Dial implements execution.Backend: the stream that the box was started with, or, if that was taken, an exec
// of the agent's dial command, which is a pipe to the agent's socket.
func (b *Backend) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if !daemon.IsID(box) {
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, core.ContextError(ctx)
	}
	if stream, ok := b.first.Take(box); ok {
		return stream, nil
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	if err := e.checkMine(ctx, box); err != nil {
		return nil, e.dialError(ctx, err)
	}
	stream, err := e.exec(ctx, box)
	return stream, e.dialError(ctx, err)
}

func (e *engine) exec(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	exec, err := e.api.ContainerExecCreate(ctx, box, container.ExecOptions{
		User:         fmt.Sprintf("%d:%d", core.DialUID, core.DialGID),
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Cmd:          []string{core.GuestAgent, "dial"},
	})
	if err != nil {
		return nil, err
	}
	stream, err := e.attach(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return e.api.ContainerExecAttach(ctx, exec.ID, container.ExecAttachOptions{})
	})
	if err == nil && e.facts().sandbox {
		stream = e.endWith(box, stream)
	}
	return stream, err
}

// attach opens a stream. The client does not look at ctx while it waits for the engine's answer, so it waits apart.
func (e *engine) attach(ctx context.Context, open func(context.Context) (types.HijackedResponse, error)) (io.ReadWriteCloser, error) {
	type result struct {
		conn types.HijackedResponse
		err  error
	}
	results, abandoned := make(chan result), make(chan struct{})
	go func() {
		conn, err := open(context.WithoutCancel(ctx))
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
		if r.err != nil {
			return nil, r.err
		}
		return daemon.NewStream(r.conn.Conn, r.conn.Reader), nil
	case <-ctx.Done():
		close(abandoned)
		return nil, ctx.Err()
	}
}

func (e *engine) dialError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err):
		return core.Errorf(core.ErrNotFound, "there is no such box")
	case cerrdefs.IsConflict(err):
		return core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	return e.fail(ctx, err, "the box could not be reached")
}
