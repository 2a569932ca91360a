package pluginhost

import (
	"context"
	"io"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// isOver reports whether ctx has ended, or is about to: the plugin knows the deadline too, and may
// be the first to give up.
func isOver(ctx context.Context) bool {
	const ahead = 50 * time.Millisecond
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && time.Until(deadline) < ahead
}

// Info implements execution.Backend. A plugin that does not answer is given up, as it is the first
// call that a server makes.
func (p *Plugin) Info(ctx context.Context) (core.Info, error) {
	return repeatable(ctx, p, "telling about itself", func(b *sdk.Client) (core.Info, error) {
		asking, cancel := context.WithTimeout(ctx, p.cfg.InfoTimeout)
		defer cancel()
		info, err := b.Info(asking)
		if err != nil && isOver(asking) && ctx.Err() == nil {
			err = core.Errorf(core.ErrUnavailable, "the backend plugin %s did not tell about itself within %s", p.cfg.Name, p.cfg.InfoTimeout).
				WithHint("its engine may hang; the server's log may say more")
		}
		return info, err
	})
}

// EnsureImage implements execution.Backend.
func (p *Plugin) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	return repeatable(ctx, p, "fetching an image", func(b *sdk.Client) (core.Image, error) {
		return b.EnsureImage(ctx, ref, policy, progress)
	})
}

// Create implements execution.Backend.
func (p *Plugin) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	return call(ctx, p, "making a box", func(b *sdk.Client) (core.Box, error) {
		return b.Create(ctx, spec)
	})
}

// Dial implements execution.Backend.
func (p *Plugin) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	return call(ctx, p, "connecting to a box", func(b *sdk.Client) (io.ReadWriteCloser, error) {
		stream, err := b.Dial(ctx, box)
		if err != nil {
			return nil, err
		}
		return &tracedStream{ReadWriteCloser: stream, plugin: p}, nil
	})
}

// List implements execution.Backend.
func (p *Plugin) List(ctx context.Context, instance string) (core.Inventory, error) {
	return repeatable(ctx, p, "listing boxes", func(b *sdk.Client) (core.Inventory, error) {
		return b.List(ctx, instance)
	})
}

// Destroy implements execution.Backend.
func (p *Plugin) Destroy(ctx context.Context, box string) error {
	return repeatableDo(ctx, p, "removing a box", func(b *sdk.Client) error { return b.Destroy(ctx, box) })
}

// EnsureVolume implements execution.Backend.
func (p *Plugin) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	return repeatable(ctx, p, "making a volume", func(b *sdk.Client) (core.Volume, error) {
		return b.EnsureVolume(ctx, v)
	})
}

// RemoveVolume implements execution.Backend.
func (p *Plugin) RemoveVolume(ctx context.Context, name string) error {
	return repeatableDo(ctx, p, "removing a volume", func(b *sdk.Client) error { return b.RemoveVolume(ctx, name) })
}

// call makes one call to the plugin; while says what for, should it die meanwhile.
func call[T any](ctx context.Context, p *Plugin, while string, f func(*sdk.Client) (T, error)) (T, error) {
	result, err := try(ctx, p, f)
	return result, p.explain(while, err)
}

// repeatable is call for what may be done twice: should the plugin die meanwhile, the next
// process is asked once more.
func repeatable[T any](ctx context.Context, p *Plugin, while string, f func(*sdk.Client) (T, error)) (T, error) {
	result, err := try(ctx, p, f)
	if sdk.IsLost(err) {
		result, err = try(ctx, p, f)
	}
	return result, p.explain(while, err)
}

func repeatableDo(ctx context.Context, p *Plugin, while string, f func(*sdk.Client) error) error {
	_, err := repeatable(ctx, p, while, func(b *sdk.Client) (struct{}, error) { return struct{}{}, f(b) })
	return err
}

func try[T any](ctx context.Context, p *Plugin, f func(*sdk.Client) (T, error)) (T, error) {
	running, err := p.acquire(ctx)
	if err != nil {
		var none T
		return none, err
	}
	result, err := f(running.backend)
	if sdk.IsLost(err) {
		running.awaitEnd(ctx)
	}
	return result, err
}

// noticeTime is how long the end of a process may come after that of its connection.
const noticeTime = time.Second

// awaitEnd waits until the process that does not answer is seen to have ended, so that its
// caller's next call waits for the next process.
func (p *process) awaitEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	select {
	case <-p.done():
	case <-ctx.Done():
	}
}

// explain turns a broken connection into a sentence; the plugin's own errors pass.
func (p *Plugin) explain(while string, err error) error {
	if !sdk.IsLost(err) {
		return err
	}
	return core.Errorf(core.ErrUnavailable, "the backend plugin %s stopped while %s", p.cfg.Name, while).
		WithHint("it is being started again: try once more; the server's log says why it stopped")
}

// tracedStream explains why a stream broke.
type tracedStream struct {
	io.ReadWriteCloser
	plugin *Plugin
}

// Read implements io.Reader.
func (s *tracedStream) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	return n, s.plugin.explain("a box was in use", err)
}

// Write implements io.Writer.
func (s *tracedStream) Write(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Write(p)
	return n, s.plugin.explain("a box was in use", err)
}
