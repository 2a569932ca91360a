package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

// environments is a dependency.Index.
type environments struct {
	db *Store
	environmentStatements
}

type environmentStatements struct {
	put, read, touch, remove statement
	get, list                statement
}

func (p *preparing) environments() environmentStatements {
	return environmentStatements{
		put: p.writer(`INSERT INTO environments (key, environment, lock, report) VALUES ($1, $2, $3, $4)
			ON CONFLICT (key) DO UPDATE SET environment = excluded.environment, lock = excluded.lock, report = excluded.report`),
		read:   p.locker(`SELECT environment FROM environments WHERE key = $1`),
		touch:  p.writer(`UPDATE environments SET environment = $1 WHERE key = $2`),
		remove: p.writer(`DELETE FROM environments WHERE key = $1`),

		get:  p.reader(`SELECT environment, lock, report FROM environments WHERE key = $1`),
		list: p.reader(`SELECT environment FROM environments ORDER BY key`),
	}
}

// Get implements dependency.Index.
func (x *environments) Get(ctx context.Context, key string) (core.Environment, error) {
	var text, lock, report []byte
	if err := x.get.row(ctx, name(key)).Scan(&text, &lock, &report); err != nil {
		return core.Environment{}, missing(key, err)
	}
	e, err := x.db.decodeEnvironment(text)
	e.Lock, e.Report = string(lock), string(report)
	return e, err
}

// missing is the error of a query for one row.
func missing(key string, err error) error {
	if isNone(err) {
		return dependency.Unknown(key)
	}
	return err
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
	_, err = x.put.exec(ctx, name(e.Key), text, []byte(e.Lock), []byte(e.Report))
	return err
}

// Touch implements dependency.Index.
func (x *environments) Touch(ctx context.Context, key string, at time.Time) error {
	return x.db.change(ctx, "", func(ctx context.Context, tx *sql.Tx) error {
		var text []byte
		if err := x.read.in(ctx, tx).row(ctx, name(key)).Scan(&text); err != nil {
			return missing(key, err)
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
		_, err = x.touch.in(ctx, tx).exec(ctx, touched, name(key))
		return err
	})
}

// Delete implements dependency.Index.
func (x *environments) Delete(ctx context.Context, key string) error {
	_, err := x.remove.exec(ctx, name(key))
	return err
}

// List implements dependency.Index.
func (x *environments) List(ctx context.Context) ([]core.Environment, error) {
	return documents(ctx, x.list, x.db.decodeEnvironment)
}
