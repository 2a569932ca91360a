package docker

import (
	"context"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
)

// openFirst attaches to a box that is about to start, unless its runtime is a sandbox, which may not hand the
// stream through.
func (b *Backend) openFirst(ctx context.Context, e *engine, id string) error {
	if e.facts().sandbox {
		return nil
	}
	stream, err := e.attach(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return e.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err == nil {
		b.first.Put(id, stream)
	}
	return err
}
