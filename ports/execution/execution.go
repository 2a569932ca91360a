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
	// directory that does not exist is core.ErrInvalid. Runs in one box go one after the other, in the
	// order in which they came.
	//
	// With spec.Session the lasting interpreter is made at the first such run, with that one's environment:
	// later ones' is not looked at. The interpreter's working directory is changed only by a Dir that is not
	// empty. The exit of a run after which the interpreter is gone has StateLost, once; the next run finds
	// a new one. When a Session run is out of time or killed, its code gets KeyboardInterrupt first, and
	// what it remembers is lost only if it does not end by that.
	//
	// With spec.Keep the run ends when its program does, and what that has started goes on; without, nothing
	// of it is alive. Out of time or killed, a Keep run loses all that it has started, and nothing that was
	// there before; only if that cannot be told apart in a few seconds, all in the box ends, and the exit
	// has StateLost if there was an interpreter.
	Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error)

	// Attach waits for a run that was begun by another server, and returns its exit. When ctx ends the run
	// goes on. A run that the box does not know is core.ErrNotFound: it never began, or it ended before the
	// last eight that did.
	Attach(ctx context.Context, run string) (core.Exit, error)

	// Kill ends a run, or keeps it from starting; it does not wait for that. An unknown run, or one
	// that has ended, is no error.
	Kill(ctx context.Context, run string) error

	// Output returns what a run has written to one stream from offset on, at most limit bytes of it and at
	// most 1 MiB; the run may be under way. What is beyond spec.Output.Spill is not there to be read: then the
	// piece is empty, although its Total is larger. An unknown run is core.ErrNotFound, a negative offset or a limit that
	// is not positive core.ErrInvalid.
	Output(ctx context.Context, run string, stream core.Stream, offset, limit int64) (core.OutputPiece, error)

	// WriteStdin gives a run with OpenStdin more of it, and with end no more after that. It returns when all is
	// in the program's pipe. taken is how many bytes of data are, also with an error: when ctx ends before the
	// program has room for the rest, that is core.ErrTimeout or core.ErrCancelled, and end is not done. A run that is unknown or has ended is
	// core.ErrNotFound; one whose stdin is closed is core.ErrInvalid.
	WriteStdin(ctx context.Context, run string, data []byte, end bool) (taken int64, err error)

	// Variables describes at most 1000 variables of the lasting interpreter, by name; none if there is no
	// interpreter yet. While it runs code this is core.ErrUnavailable.
	Variables(ctx context.Context) ([]core.Variable, error)

	// ReadOutput copies what was spilled of one stream of a run that ended to w, at most limit bytes.
	ReadOutput(ctx context.Context, run string, stream core.Stream, w io.Writer, limit int64) (int64, error)

	// WriteFile writes a file below the workspace, with its folders; path is relative, and never
	// leaves the workspace, not by ".." and not by a link. The file is whole or absent.
	WriteFile(ctx context.Context, path string, r io.Reader) error

	// ReadFile copies a regular file of the workspace to w. One longer than limit bytes is
	// core.ErrExhausted. Links are not followed: core.ErrInvalid.
	ReadFile(ctx context.Context, path string, w io.Writer, limit int64) (int64, error)

	// ReadPiece returns what a regular file of the workspace has from offset on, at most limit bytes of it and at
	// most 1 MiB; nothing beyond its end. Links are not followed: core.ErrInvalid, and so are a negative offset
	// and a limit that is not positive.
	ReadPiece(ctx context.Context, path string, offset, limit int64) (core.FilePiece, error)

	// ListFiles returns what lies in a folder of the workspace and, if recursive, in the folders below it, by
	// path, which is relative to the workspace; dir "" is the workspace. Links are not followed. If there is more than
	// 10,000, some of it comes with core.ErrExhausted. A folder that is not there is core.ErrNotFound, what is none
	// core.ErrInvalid.
	ListFiles(ctx context.Context, dir string, recursive bool) ([]core.FileEntry, error)

	// RemoveFile removes a file of the workspace, or a link but not what it leads to. A missing one is
	// core.ErrNotFound; a folder, and a path through a link, is core.ErrInvalid.
	RemoveFile(ctx context.Context, path string) error

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
