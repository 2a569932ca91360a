// Package identity is the port to what the server knows of those who call: users, their keys, what they did and
// what they used.
//
// It keeps facts: whether a credential opens the door is adapters/auth's to say, and whether a quota is full that
// of the use cases. Package identitytest checks each sentence below. Stores are shared by all servers of an
// installation, so every method may be called at the same time, also by other processes. What comes back is
// what was put, a time to the nanosecond, and is the caller's own.
package identity

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Users keeps users and their keys, which go with them.
type Users interface {
	// AddUser keeps a new user. One that core.CheckUser refuses, and an id or a name that there is already, are
	// core.ErrInvalid; of a name, the error has it as the other user does.
	AddUser(ctx context.Context, u core.User) error

	// User returns the user with that id or, failing that, that name, or core.ErrNotFound.
	User(ctx context.Context, idOrName string) (core.User, error)

	// UpdateUser changes a user as one step: change sees the present state, and what it leaves is kept unless it
	// returns an error, which UpdateUser returns. An unknown id is core.ErrNotFound; what AddUser would refuse is
	// core.ErrInvalid. ID and Created stay as they are. change must be quick and must not use the store.
	UpdateUser(ctx context.Context, id string, change func(*core.User) error) error

	// Users lists all users by name.
	Users(ctx context.Context) ([]core.User, error)

	// RemoveUser forgets a user and its keys. An unknown id is no error.
	RemoveUser(ctx context.Context, id string) error
}

// Keys keeps what of keys may be known: never a secret.
type Keys interface {
	// AddKey keeps a new key. One that core.CheckKey refuses, and an id that there is already, are
	// core.ErrInvalid; an owner that is no user is core.ErrNotFound.
	AddKey(ctx context.Context, k core.Key) error

	// Key returns a key and the user whose it is, as they are at one moment, or core.ErrNotFound.
	Key(ctx context.Context, id string) (core.Key, core.User, error)

	// UpdateKey changes a key as one step, as UpdateUser does a user. ID, Owner, Hash and Created stay as they are.
	UpdateKey(ctx context.Context, id string, change func(*core.Key) error) error

	// ReplaceKey keeps a new key of the same owner and has the old one be as Key.RotatedTo says: both or neither.
	// An unknown old key is core.ErrNotFound. One that was replaced or revoked already, another owner and what
	// AddKey would refuse are core.ErrInvalid.
	ReplaceKey(ctx context.Context, old string, by core.Key, until time.Time) error

	// Keys lists the owner's keys, the oldest first; "" is everybody's.
	Keys(ctx context.Context, owner string) ([]core.Key, error)

	// Touch notes when keys were used. An earlier time than the one that is known, and an unknown key, change nothing.
	Touch(ctx context.Context, used map[string]time.Time) error
}

// Setup keeps the hash of the one token that makes the first administrator.
type Setup interface {
	// Offer keeps the hash of a token that is good until then, in place of the one before. It is
	// core.ErrInvalid as soon as there is an administrator, disabled or not.
	Offer(ctx context.Context, hash [32]byte, until time.Time) error

	// Redeem keeps an administrator and its first key, for the token with that hash, which is then good for
	// nothing: of several that want it at once one gets it. Another hash, a token whose time is over at now, and
	// none, as there is an administrator by now, are core.ErrDenied. What AddUser or AddKey would refuse is
	// core.ErrInvalid, and the token stays good.
	Redeem(ctx context.Context, hash [32]byte, now time.Time, admin core.User, key core.Key) error
}

// Audit keeps what was done.
type Audit interface {
	// Append keeps a record. None is ever changed.
	Append(ctx context.Context, r core.AuditRecord) error

	// Records returns the principal's records from before, the latest first and among those of one moment the one
	// that was appended last, at most limit of them. A zero time is no bound; "" is everybody's; a limit under 1
	// is core.ErrInvalid.
	Records(ctx context.Context, principal string, before time.Time, limit int) ([]core.AuditRecord, error)

	// SweepRecords forgets the records from before, and tells how many they were.
	SweepRecords(ctx context.Context, before time.Time) (int, error)
}

// Usage keeps what principals used and keep.
type Usage interface {
	// Spend adds to the processor time that a principal had in the window that begins then, and returns what that
	// is now: adding nothing only asks. None is lost when several add at once.
	Spend(ctx context.Context, owner string, window time.Time, more time.Duration) (total time.Duration, err error)

	// SweepSpending forgets the windows that began before.
	SweepSpending(ctx context.Context, before time.Time) error

	// Hold adds to what an owner keeps of a run's files, unless that makes all that the owner keeps more than most,
	// in bytes: then it is core.ErrExhausted and changes nothing, however many hold at once. most 0 is no bound. A
	// run that somebody else holds is core.ErrInvalid. A negative amount gives back, down to none.
	Hold(ctx context.Context, h core.Holding, most int64) error

	// Holding returns what is kept of a run, or core.ErrNotFound.
	Holding(ctx context.Context, run string) (core.Holding, error)

	// Holdings lists what an owner keeps, the oldest first; "" is everybody's.
	Holdings(ctx context.Context, owner string) ([]core.Holding, error)

	// Release forgets what is kept of a run. An unknown run is no error.
	Release(ctx context.Context, run string) error
}

// Store is all of them.
type Store interface {
	Users
	Keys
	Setup
	Audit
	Usage
}
