// Package session is the port to what a server must not forget: the sessions and the runs of its clients.
//
// It keeps facts, not boxes: whether a session's box still lives is the backend's to say. Package
// sessiontest checks each sentence below. Stores are shared by all servers of an installation, so every
// method may be called at the same time, also by other processes.
//
// What comes back is what was put, byte for byte, whatever bytes its texts hold; a time is the same instant,
// and an empty list may come back as none. It is the caller's own: changing it changes nothing in the store.
// An owner is never "": where a method says so, that is everybody.
package session

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Store keeps sessions. Those that are not lost have, among the owner's, a name and a client of their own,
// unless it is "".
type Store interface {
	// Add keeps a new session. An id that exists, or is "", is core.ErrInvalid, and so is a name or a client
	// that another session of the owner's has that is not lost.
	Add(ctx context.Context, s core.Session) error

	// Get returns the owner's session with that id or, failing that, the owner's latest with that name;
	// one that is not lost comes first. Somebody else's is core.ErrNotFound, as one that does not exist;
	// "" names nothing.
	Get(ctx context.Context, owner, idOrName string) (core.Session, error)

	// OfClient returns the owner's session of a connection that is not lost, or core.ErrNotFound.
	OfClient(ctx context.Context, owner, client string) (core.Session, error)

	// Update changes a session as one step: change sees the present state, and what it leaves is kept unless
	// it returns an error, which Update returns. An unknown id is core.ErrNotFound; a name or a client that
	// Add would refuse is core.ErrInvalid. ID, Owner and Created stay as they are. All other changes wait for
	// change, which must be quick and must not use the store.
	Update(ctx context.Context, id string, change func(*core.Session) error) error

	// List returns the owner's sessions, the oldest first, lost ones too; "" is everybody's.
	List(ctx context.Context, owner string) ([]core.Session, error)

	// Remove forgets a session. An unknown id is no error.
	Remove(ctx context.Context, id string) error
}

// Runs keeps runs and their records.
type Runs interface {
	// Put keeps a run, or the new state of one that is kept. A run goes from under way to lost, or to ended,
	// and one that was given up for lost may turn out to have ended: putting it the other way, or one that
	// has ended, is core.ErrInvalid and changes nothing. So is putting another owner's, and an id that is not a run's.
	Put(ctx context.Context, r core.Run) error

	// TakeOver gives a run that is under way from one server to another. Of several that want it at once one
	// gets it: a run that is not that server's any more, has ended or does not exist is core.ErrNotFound.
	TakeOver(ctx context.Context, id, from, to string) error

	// Get returns the owner's run, or core.ErrNotFound; "" is everybody's.
	Get(ctx context.Context, owner, id string) (core.Run, error)

	// List returns the owner's runs that began before, the latest first, at most limit of them and those that
	// began at the same moment as the last, so that going on before that moment misses none. A zero time is
	// no bound; "" is everybody's; a limit under 1 is core.ErrInvalid. The runs are as Brief returns them.
	List(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error)

	// UnderWay returns all runs that are under way, the latest first.
	UnderWay(ctx context.Context) ([]core.Run, error)

	// Sweep forgets runs that ended, or were lost, before, and tells how many they were. One that was lost at
	// an unknown time counts by its beginning.
	Sweep(ctx context.Context, before time.Time) (int, error)

	// Trim has the runs that ended first lose what Brief leaves out, until what is kept of that is at most room
	// bytes, as the store counts them, and tells how many they were. They become as Trimmed returns them.
	Trim(ctx context.Context, room int64) (int, error)
}
