// Package session is the port to what a server must not forget: the sessions and the runs of its clients.
//
// It keeps facts, not boxes: whether a session's box still lives is the backend's to say. Package
// sessiontest checks each sentence below. Stores are shared by all servers of an installation, so every
// method may be called at the same time, also by other processes.
package session

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Store keeps sessions.
type Store interface {
	// Add keeps a new session. An id that exists is core.ErrInvalid, and so is a name that another session
	// of the owner's has that is not lost.
	Add(ctx context.Context, s core.Session) error

	// Get returns the owner's session with that id or, failing that, the owner's latest with that name;
	// one that is not lost comes first. Somebody else's is core.ErrNotFound, as one that does not exist.
	Get(ctx context.Context, owner, idOrName string) (core.Session, error)

	// OfClient returns the owner's session of a connection that is not lost, or core.ErrNotFound.
	OfClient(ctx context.Context, owner, client string) (core.Session, error)

	// Update changes a session as one step: change sees the present state, and what it leaves is kept unless
	// it returns an error, which Update returns. An unknown id is core.ErrNotFound. ID, Owner and Created
	// stay as they are.
	Update(ctx context.Context, id string, change func(*core.Session) error) error

	// List returns the owner's sessions, the oldest first, lost ones too; "" is everybody's.
	List(ctx context.Context, owner string) ([]core.Session, error)

	// Remove forgets a session. An unknown id is no error.
	Remove(ctx context.Context, id string) error
}

// Runs keeps runs and their records.
type Runs interface {
	// Put keeps a run, or the new state of one that is kept. One that has ended or is lost keeps that state:
	// putting it as under way is core.ErrInvalid.
	Put(ctx context.Context, r core.Run) error

	// Get returns the owner's run, or core.ErrNotFound; "" is everybody's.
	Get(ctx context.Context, owner, id string) (core.Run, error)

	// List returns the owner's runs, the latest first, at most limit of them, that began before; a zero time
	// is now. "" is everybody's. Records come without outputs' bytes and previews.
	List(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error)

	// UnderWay returns all runs that are under way.
	UnderWay(ctx context.Context) ([]core.Run, error)

	// Sweep forgets runs that ended before, and tells how many they were.
	Sweep(ctx context.Context, before time.Time) (int, error)
}
