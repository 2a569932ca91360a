package sdk

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/boxwright/boxwright/core"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
	"github.com/boxwright/boxwright/proto/wire"

	"github.com/boxwright/boxwright/ports/execution"
)

// lostError is the cause of every error that came from the connection, not from the plugin.
type lostError struct{}

// Error implements error.
func (lostError) Error() string { return "the connection to the plugin is lost" }

// IsLost reports whether err says that the plugin's process or connection ended. Such an error
// is also core.ErrUnavailable.
func IsLost(err error) bool { return errors.As(err, &lostError{}) }

// Client is a plugin's backend as the host sees it. Its methods may be called at the same time, and
// keep the promises of execution.Backend if the plugin does; some, such as that a call whose ctx ends
// returns soon, it keeps by itself. When the plugin has died they return core.ErrUnavailable, and
// IsLost tells.
type Client struct {
	rpc  backendv1.BackendServiceClient
	conn *grpc.ClientConn
}

var _ execution.Backend = (*Client)(nil)

// NewClient speaks to the plugin behind conn, which stays its owner's.
func NewClient(conn *grpc.ClientConn) *Client {
	return &Client{rpc: backendv1.NewBackendServiceClient(conn), conn: conn}
}

// Configure opens the plugin's backend. It must succeed before any other call; until then it may be
// repeated, afterwards it is core.ErrInvalid. Settings that the plugin refuses are core.ErrInvalid too.
func (c *Client) Configure(ctx context.Context, cfg Config) error {
	_, err := c.rpc.Configure(ctx, configToProto(cfg))
	return c.fromStatus(ctx, err)
}

// Info implements execution.Backend.
func (c *Client) Info(ctx context.Context) (core.Info, error) {
	r, err := c.rpc.Info(ctx, &backendv1.InfoRequest{})
	if err != nil {
		return core.Info{}, c.fromStatus(ctx, err)
	}
	return infoFromProto(r), nil
}

// EnsureImage implements execution.Backend.
func (c *Client) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.EnsureImage(streamCtx, &backendv1.EnsureImageRequest{Ref: ref, Policy: string(policy)})
	for err == nil {
		var r *backendv1.EnsureImageResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		if r.GetImage() != nil {
			return imageFromProto(r.GetImage()), nil
		}
		if r.GetProgress() != nil && progress != nil {
			progress(progressFromProto(r.GetProgress()))
		}
	}
	if errors.Is(err, io.EOF) {
		return core.Image{}, core.Errorf(core.ErrInternal, "the plugin ended the fetch of %s without an image", ref)
	}
	return core.Image{}, c.fromStatus(ctx, err)
}

// Create implements execution.Backend. When ctx ends, the call goes on for a moment: a reply that comes
// just too late names a box that nobody else knows of, and that is removed.
func (c *Client) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	if ctx.Err() != nil {
		return core.Box{}, core.ContextError(ctx)
	}
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	replies := make(chan reply, 1)
	go func() {
		r, err := c.rpc.Create(call, specToProto(spec))
		replies <- reply{r.GetBox(), err}
	}()
	select {
	case r := <-replies:
		cancel()
		if r.err != nil {
			return core.Box{}, c.fromStatus(ctx, r.err)
		}
		return boxFromProto(r.box), nil
	case <-ctx.Done():
		go c.discard(call, cancel, replies)
		return core.Box{}, core.ContextError(ctx)
	}
}

// reply is how a Create ended.
type reply struct {
	box *backendv1.Box
	err error
}

// lateTime is how long a Create goes on whose caller has left.
const lateTime = 500 * time.Millisecond

// discard removes a box that comes too late, and ends a Create that takes longer.
func (c *Client) discard(call context.Context, cancel context.CancelFunc, replies <-chan reply) {
	defer cancel()
	timer := time.AfterFunc(lateTime, cancel)
	defer timer.Stop()
	if r := <-replies; r.err == nil {
		destroyUnseen(call, c, r.box.GetId())
	}
}

// List implements execution.Backend.
func (c *Client) List(ctx context.Context, instance string) (core.Inventory, error) {
	r, err := c.rpc.List(ctx, &backendv1.ListRequest{Instance: instance})
	if err != nil {
		return core.Inventory{}, c.fromStatus(ctx, err)
	}
	return inventoryFromProto(r), nil
}

// Destroy implements execution.Backend.
func (c *Client) Destroy(ctx context.Context, box string) error {
	_, err := c.rpc.Destroy(ctx, &backendv1.DestroyRequest{Box: box})
	return c.fromStatus(ctx, err)
}

// EnsureVolume implements execution.Backend.
func (c *Client) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	r, err := c.rpc.EnsureVolume(ctx, &backendv1.EnsureVolumeRequest{Volume: volumeToProto(v)})
	if err != nil {
		return core.Volume{}, c.fromStatus(ctx, err)
	}
	return volumeFromProto(r.GetVolume()), nil
}

// RemoveVolume implements execution.Backend.
func (c *Client) RemoveVolume(ctx context.Context, name string) error {
	_, err := c.rpc.RemoveVolume(ctx, &backendv1.RemoveVolumeRequest{Name: name})
	return c.fromStatus(ctx, err)
}

// lossTime is how long a broken connection may take to be seen as one.
const lossTime = 250 * time.Millisecond

// fromStatus is wire.FromStatus, and marks what gRPC itself said about a broken connection. A
// plugin may say the same of its engine: with details if this SDK sends it, without in other
// languages.
func (c *Client) fromStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	suspect := st.Code() == codes.Unavailable || st.Code() == codes.Canceled
	if ctx.Err() == nil && suspect && len(st.Details()) == 0 && c.isBroken(ctx) {
		return &core.Error{Kind: core.ErrUnavailable, Message: "the plugin does not answer", Cause: lostError{}}
	}
	return wire.FromStatus(ctx, err)
}

// isBroken reports whether the connection has ended. Its calls end a little before its state
// changes.
func (c *Client) isBroken(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lossTime)
	defer cancel()
	c.conn.WaitForStateChange(ctx, connectivity.Ready)
	return c.conn.GetState() != connectivity.Ready
}
