// Package sqlstore keeps sessions, runs, the index of environments, and users with their keys and what they did, in
// the tables of an SQL database.
//
// It has the statements, which are the same for every database, and the form of what is kept. It opens nothing and
// makes no tables: packages sqlite and postgres do, and tell by an Engine how their database differs.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/session"
)

// Engine is what each database does in its own way.
type Engine interface {
	// Name is a text of any bytes in the form in which columns hold it that are searched. Of two texts it is not
	// the same.
	Name(text string) any
	// Begin begins a transaction, and until that ends no other one about the same, by whatever server.
	// About "" none waits, but for rows that another has locked.
	Begin(ctx context.Context, about string) (*sql.Tx, error)
	// IsCollision tells that what is to be unique exists already.
	IsCollision(err error) bool
	// Fault gives an error that is not nil its kind. One that has a kind keeps it.
	Fault(ctx context.Context, err error) error
	// Damaged is the error of what is kept but cannot be read.
	Damaged(err error) error
	// Wrote is told of each change, with about the bytes of its documents.
	Wrote(bytes int)
}

// Database is an open database that has its tables.
type Database struct {
	Engine
	// Write and Read are pools of connections; they may be one.
	Write, Read *sql.DB
	// Lock is how a SELECT ends that keeps others off its rows until the transaction ends. "" where a transaction
	// keeps others off everything.
	Lock string
	// Limit bounds each call, in which a database may not answer. 0 is no bound.
	Limit time.Duration
}

// Store has a database's stores.
type Store struct {
	on       Database
	sessions sessions
	runs     runs
	index    environments
	identity people
}

// New prepares the statements. A database whose tables are not as the schema made them is an error of its engine's.
func New(ctx context.Context, d Database) (*Store, error) {
	s := &Store{on: d}
	p := preparing{ctx: ctx, store: s}
	s.sessions = sessions{db: s, sessionStatements: p.sessions()}
	s.runs = runs{db: s, runStatements: p.runs()}
	s.index = environments{db: s, environmentStatements: p.environments()}
	s.identity = people{db: s, userStatements: p.users(), keyStatements: p.keys(), auditStatements: p.audit(), usageStatements: p.usage()}
	return s, p.err
}

// preparing prepares statements until one fails.
type preparing struct {
	ctx   context.Context //nolint:containedctx // it lives as long as one call
	store *Store
	err   error
}

func (p *preparing) on(pool *sql.DB, query string) statement {
	s := statement{store: p.store}
	if p.err == nil {
		s.stmt, p.err = pool.PrepareContext(p.ctx, query) //nolint:sqlclosecheck // closed with its pool
	}
	return s
}

func (p *preparing) reader(query string) statement { return p.on(p.store.on.Read, query) }
func (p *preparing) writer(query string) statement { return p.on(p.store.on.Write, query) }

// locker is a query whose row nobody else changes until the transaction ends.
func (p *preparing) locker(query string) statement { return p.writer(query + " " + p.store.on.Lock) }

// Sessions is the database's session.Store.
func (d *Store) Sessions() session.Store { return &d.sessions }

// Runs is the database's session.Runs.
func (d *Store) Runs() session.Runs { return &d.runs }

// Environments is the database's dependency.Index.
func (d *Store) Environments() dependency.Index { return &d.index }

// Identity is the database's identity.Store.
func (d *Store) Identity() identity.Store { return &d.identity }

// change does f as one step, which nobody else's change about the same interrupts. The error of f is returned as
// it is.
func (d *Store) change(ctx context.Context, about string, f func(context.Context, *sql.Tx) error) error {
	ctx, cancel := d.limited(ctx)
	defer cancel()
	tx, err := d.on.Begin(ctx, about)
	if err != nil {
		return d.fault(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := f(ctx, tx); err != nil {
		return err
	}
	return d.fault(ctx, tx.Commit())
}

// slowError is why a call was ended that took longer than Limit.
type slowError struct{}

func (slowError) Error() string { return "the database was too slow" }

func (d *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.on.Limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d.on.Limit, slowError{})
}

// collision is the error of a statement that met what is to be unique.
type collision struct{ error }

func (c collision) Unwrap() error { return c.error }

func isCollision(err error) bool {
	_, is := errors.AsType[collision](err)
	return is
}

// fault gives an error its kind, but for sql.ErrNoRows, which is an answer.
func (d *Store) fault(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, sql.ErrNoRows):
		return err
	case d.on.IsCollision(err):
		return collision{d.on.Fault(ctx, err)}
	case errors.Is(context.Cause(ctx), slowError{}):
		return core.Errorf(core.ErrUnavailable, "the database has not answered within %s", d.on.Limit).
			WithHint("try again later; if it stays so, look at what the database server does")
	default:
		return d.on.Fault(ctx, err)
	}
}

// stamp is a time as columns have it: texts that sort as times do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
