// Package artifact is the port to the store of files that runs left.
//
// It keeps bytes and what is known of them. It does not know boxes, MCP or HTTP.
package artifact

import (
	"context"
	"io"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Store keeps files by run and name. All methods may be called at the same time.
// Names are relative paths with slashes; one that is absolute, empty, or has an empty,
// "." or ".." element, a NUL, or is not UTF-8, is core.ErrInvalid and stores nothing.
type Store interface {
	// Create begins a file. ctx is for all of it: once it ends, a store need not take the rest. It can be read only after Commit. A run and name that exist
	// already are core.ErrInvalid. A store with a bound removes the oldest runs when there is no room
	// left, but never the run that is written; if that is not enough, it is core.ErrExhausted, here or in Write.
	Create(ctx context.Context, run, name string) (Writer, error)

	// Open returns the file, from its first byte, with what is known of it, or core.ErrNotFound.
	Open(ctx context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error)

	// List returns the files of a run by name; none for an unknown run.
	List(ctx context.Context, run string) ([]core.Artifact, error)

	// Remove removes a run's files. An unknown run is no error.
	Remove(ctx context.Context, run string) error

	// Sweep removes the runs whose newest file is older than before, then the oldest until
	// at most maxBytes are kept (0: no bound), and tells how many runs it removed.
	Sweep(ctx context.Context, before time.Time, maxBytes int64) (int, error)
}

// Writer receives one file. Exactly one of Commit and Abort ends it; Abort after either does nothing.
type Writer interface {
	io.Writer
	// Commit makes the file readable. mimeType "" is found from name and content.
	Commit(mimeType string) (core.Artifact, error)
	// Abort leaves nothing.
	Abort()
}
