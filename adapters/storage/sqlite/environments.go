package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

// environments is a dependency.Index.
type environments struct {
	db *DB
	environmentStatements
}

type environmentStatements struct {
	put, read, touch, remove *sql.Stmt
	get, list                *sql.Stmt
}

func (p *preparing) environments() environmentStatements {
	return environmentStatements{
		put:    p.writer(`INSERT OR REPLACE INTO environments (key, environment, lock, report) VALUES (?, ?, ?, ?)`),
		read:   p.writer(`SELECT environment FROM environments WHERE key = ?`),
		touch:  p.writer(`UPDATE environments SET environment = ? WHERE key = ?`),
		remove: p.writer(`DELETE FROM environments WHERE key = ?`),

		get:  p.reader(`SELECT environment, lock, report FROM environments WHERE key = ?`),
		list: p.reader(`SELECT environment FROM environments ORDER BY key`),
	}
}

// Get implements dependency.Index.
func (x *environments) Get(ctx context.Context, key string) (core.Environment, error) {
	var text, lock, report []byte
	if err := x.get.QueryRowContext(ctx, key).Scan(&text, &lock, &report); err != nil {
		return core.Environment{}, x.missing(ctx, key, err)
	}
	e, err := x.db.decodeEnvironment(text)
	e.Lock, e.Report = string(lock), string(report)
	return e, err
}

// missing is the error of a query for one row.
func (x *environments) missing(ctx context.Context, key string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return dependency.Unknown(key)
	}
	return x.db.fault(ctx, err)
}

// Put implements dependency.Index.
func (x *environments) Put(ctx context.Context, e core.Environment) error {
	if err := dependency.CheckEnvironment(e); err != nil {
		return err
	}
	text, err := encodeEnvironment(e)
	if err != nil {
		return err
	}
	defer x.db.changed(len(text) + len(e.Lock) + len(e.Report))
	_, err = x.put.ExecContext(ctx, e.Key, text, []byte(e.Lock), []byte(e.Report))
	return x.db.fault(ctx, err)
}

// Touch implements dependency.Index.
func (x *environments) Touch(ctx context.Context, key string, at time.Time) error {
	return x.db.change(ctx, func(tx *sql.Tx) error {
		var text []byte
		if err := tx.StmtContext(ctx, x.read).QueryRowContext(ctx, key).Scan(&text); err != nil {
			return x.missing(ctx, key, err)
		}
		e, err := x.db.decodeEnvironment(text)
		if err != nil || !at.After(e.Used) {
			return err
		}
		e.Used = at
		touched, err := encodeEnvironment(e)
		if err != nil {
			return err
		}
		_, err = tx.StmtContext(ctx, x.touch).ExecContext(ctx, touched, key)
		return x.db.fault(ctx, err)
	})
}

// Delete implements dependency.Index.
func (x *environments) Delete(ctx context.Context, key string) error {
	defer x.db.changed(0)
	_, err := x.remove.ExecContext(ctx, key)
	return x.db.fault(ctx, err)
}

// List implements dependency.Index.
func (x *environments) List(ctx context.Context) ([]core.Environment, error) {
	return collect(ctx, x.db, x.db.decodeEnvironment, x.list)
}
