// Package execution is the port to the places where boxes live, and to what is inside a box.
//
// Backend makes boxes; it is implemented by each engine's plugin and by the gRPC client that
// reaches one. Guest is what the agent in a box offers. Neither knows MCP, config or storage.
// The sentences below are promises; package executiontest checks each of them.
package execution

import (
	"context"
	"io"

	"github.com/boxwright/boxwright/core"
)

// Backend makes isolated boxes on one engine. All methods may be called at the same time,
// and return an error of a core.Kind. A method whose ctx ends returns soon, with
// core.ErrCancelled or core.ErrTimeout. An engine that cannot be reached is
// core.ErrUnavailable with a hint that names the fix, and is tried anew at the next call.
type Backend interface {
	// Info tells what the backend is and, for every core.Limit, what makes it hold.
	Info(ctx context.Context) (core.Info, error)

	// EnsureImage returns once the image is in the engine. An image that is there already
	// is not fetched unless policy says always. With policy never, or if no registry has it,
	// a missing image is core.ErrNotFound; a malformed ref is core.ErrInvalid. progress may be
	// nil, is never called at the same time twice, and is not called after the return.
	EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error)

	// Create returns a started box whose agent can be dialled. It is all or nothing: if any
	// step fails or ctx ends, nothing is left. A missing image or volume is core.ErrNotFound.
	// With spec.Digest, which is what EnsureImage returned, the box is made from exactly that
	// content, whatever spec.Image names by now; it is core.ErrNotFound when it is gone.
	// A digest that is none, limits that core.Limits.Validate refuses, an unknown network, and a mount that is not a
	// volume on a clean absolute path that is neither core.GuestBin, nor below, nor above it, are
	// core.ErrInvalid. A limit that
	// would not hold is core.ErrUnsupported, or a warning in the box if the spec says so.
	// Inside, the agent is PID 1, all runs as core.GuestUID without capabilities, the root file
	// system is read-only, and core.GuestWork, core.GuestHome and core.GuestTmp are writable.
	Create(ctx context.Context, spec core.BoxSpec) (core.Box, error)

	// Dial opens a byte stream to the box's agent. It may be called again and at the same
	// time; the streams are independent. ctx bounds the opening only. An unknown box is
	// core.ErrNotFound; a stopped one is core.ErrUnavailable. A stream ends for its reader when
	// it is closed, and when the box is destroyed.
	Dial(ctx context.Context, box string) (io.ReadWriteCloser, error)

	// List returns all boxes and volumes labelled with the instance, in any state, whoever
	// made them, with the labels that they were made with.
	List(ctx context.Context, instance string) (core.Inventory, error)

	// Destroy removes the box and all its processes, also if they hang. An unknown box is no
	// error. A container that is not a box of Boxwright's is core.ErrNotFound and stays, and so
	// do the volumes that were mounted.
	Destroy(ctx context.Context, box string) error

	// EnsureVolume returns the volume, and makes it if it is missing. An existing volume
	// keeps its labels and content. A malformed name is core.ErrInvalid; a volume that is not
	// Boxwright's is core.ErrNotFound.
	EnsureVolume(ctx context.Context, volume core.Volume) (core.Volume, error)

	// RemoveVolume removes the volume. An unknown one is no error; one in use by a box is
	// core.ErrUnavailable; one that is not Boxwright's is core.ErrNotFound and stays.
	RemoveVolume(ctx context.Context, name string) error
}

// Guest is the agent in one box. All that it returns comes from inside the box: implementers
// bound sizes and check names before they hand it on. When the stream to the agent is lost for
// good, methods return core.ErrUnavailable.
type Guest interface {
	// Run runs a program to its end. When ctx ends, the program's whole tree is killed and the
	// exit says cancelled. sink may be nil; it gets output while it is produced if the spec
	// asks for that, may miss some, and never slows the program down. A program that fails is
	// not an error. An interpreter that the image lacks is core.ErrUnsupported; a working
	// directory that does not exist is core.ErrInvalid.
	Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error)

	// ReadOutput copies what was spilled of one stream of a run that ended to w, at most limit bytes.
	ReadOutput(ctx context.Context, run string, stream core.Stream, w io.Writer, limit int64) (int64, error)

	// WriteFile writes a file below the workspace, with its folders; path is relative, and never
	// leaves the workspace, not by ".." and not by a link. The file is whole or absent.
	WriteFile(ctx context.Context, path string, r io.Reader) error

	// ReadFile copies a regular file of the workspace to w. One longer than limit bytes is
	// core.ErrExhausted. Links are not followed: core.ErrInvalid.
	ReadFile(ctx context.Context, path string, w io.Writer, limit int64) (int64, error)

	// Preview renders an image file of the workspace in at most limit bytes. The original
	// bytes come back if they fit. What is not a readable image is core.ErrUnsupported.
	Preview(ctx context.Context, path string, limit int64) (core.Preview, error)

	// Close closes the stream. Programs in the box go on.
	Close() error
}

// Connector reaches the agent of a box.
type Connector interface {
	// Connect dials the box's agent and returns when it has answered.
	Connect(ctx context.Context, backend Backend, box string) (Guest, error)
}
