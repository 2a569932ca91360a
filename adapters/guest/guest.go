// Package guest is the host's side of the agent protocol: it reaches the agent of a box over a stream
// that a backend dials, and offers what the agent can do as execution.Guest.
//
// All that comes out of a box is untrusted. This package bounds and checks it, and hands on nothing
// that it has not understood. It makes no boxes and stores no files.
package guest

import (
	"context"
	"io"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

// Connector reaches agents.
type Connector struct{}

// New returns a connector.
func New() *Connector { return &Connector{} }

// Guest is one agent. It may be used by many callers at the same time, and dials again when its stream
// is lost.
type Guest struct {
	link *link
}

var (
	_ execution.Connector = (*Connector)(nil)
	_ execution.Guest     = (*Guest)(nil)
	_ execution.Standing  = (*Guest)(nil)
)

// Connect implements execution.Connector.
func (*Connector) Connect(ctx context.Context, backend execution.Backend, box string) (execution.Guest, error) {
	g := &Guest{link: newLink(func(ctx context.Context) (io.ReadWriteCloser, error) { return backend.Dial(ctx, box) })}
	_, err := call(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.DescribeResponse, error) {
		return client.Describe(ctx, &guestv1.DescribeRequest{})
	})
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

// Stands implements execution.Standing.
func (g *Guest) Stands() bool { return g.link.stands() }

// Close implements execution.Guest.
func (g *Guest) Close() error { return g.link.close() }

// Bounds of what is asked of an agent and taken from it.
const (
	maxCode    = 16 << 20 // bytes
	maxStdin   = 16 << 20
	chunk      = 1 << 20 // bytes in one message
	maxPreview = 3 << 20
	// grace is how long a run may take to end after its caller has gone.
	grace = 3 * time.Second
	// graceInSession is the same where code may end itself, and what it has started has to be found.
	graceInSession = 10 * time.Second
	// reattach is how long a lost stream may take to be opened again: in a box whose processes are all
	// in use no dial can begin until the run's own timeout ends them.
	reattach = 10 * time.Second
	// again is how often the agent is asked to end it: the first time may have come before the run.
	again = 200 * time.Millisecond
)

// Preview implements execution.Guest.
func (g *Guest) Preview(ctx context.Context, path string, limit int64) (core.Preview, error) {
	limit = min(limit, maxPreview)
	if limit <= 0 {
		return core.Preview{}, core.Errorf(core.ErrInvalid, "the limit of a preview must be positive")
	}
	sent, err := retry(ctx, g.link, func(ctx context.Context, client guestv1.GuestServiceClient) (*guestv1.PreviewResponse, error) {
		return client.Preview(ctx, &guestv1.PreviewRequest{Path: []byte(path), Limit: limit})
	})
	if err != nil {
		return core.Preview{}, err
	}
	kind, data := sent.GetMimeType(), sent.GetData()
	if int64(len(data)) > limit || len(data) == 0 || !pictureType(kind) {
		return core.Preview{}, core.Errorf(core.ErrUnsupported, "the box returned no usable preview")
	}
	return core.Preview{MIMEType: kind, Data: data, Shrunk: sent.GetShrunk()}, nil
}

func pictureType(kind string) bool {
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}
