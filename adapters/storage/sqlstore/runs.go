package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// runs is a session.Runs.
type runs struct {
	db *Store
	runStatements
}

type runStatements struct {
	put, sweep    statement
	trim, beyond  statement
	read, get     statement
	list, listAll statement
	underWay      statement
}

// A page goes on to the end of the moment at which it would be cut.
const (
	page = `SELECT brief FROM runs WHERE owner = $1 AND started < $2 AND started >= coalesce(
		(SELECT started FROM runs WHERE owner = $1 AND started < $2 ORDER BY started DESC LIMIT 1 OFFSET $3), '')
		ORDER BY started DESC, id DESC`
	pageOfAll = `SELECT brief FROM runs WHERE started < $1 AND started >= coalesce(
		(SELECT started FROM runs WHERE started < $1 ORDER BY started DESC LIMIT 1 OFFSET $2), '')
		ORDER BY started DESC, id DESC`
)

// tooMuch are runs whose bytes, with those of all that ended later, are more than there is room for.
// It does not read them.
const tooMuch = `SELECT brief FROM runs WHERE id IN (SELECT id FROM (
	SELECT id, sum(octet_length(whole)) OVER (ORDER BY ended DESC, id DESC) AS kept FROM runs WHERE stage = 2 AND whole IS NOT NULL
	) AS by_age WHERE kept > $1) LIMIT 500`

// endOfTime sorts after every stamp.
const endOfTime = "~"

func (p *preparing) runs() runStatements {
	return runStatements{
		put: p.writer(`INSERT INTO runs (id, owner, stage, started, ended, brief, whole) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (id) DO UPDATE SET
				stage = excluded.stage, started = excluded.started, ended = excluded.ended, brief = excluded.brief, whole = excluded.whole
			WHERE runs.owner = excluded.owner AND runs.stage <= excluded.stage AND runs.stage < 2`),
		read:   p.locker(`SELECT coalesce(whole, brief) FROM runs WHERE id = $1 AND stage = 0`),
		sweep:  p.writer(`DELETE FROM runs WHERE ended < $1`),
		trim:   p.writer(`UPDATE runs SET brief = $1, whole = NULL WHERE id = $2 AND stage = 2 AND whole IS NOT NULL`),
		beyond: p.reader(tooMuch),

		get:      p.reader(`SELECT coalesce(whole, brief) FROM runs WHERE id = $1 AND (owner = $2 OR $2 = '')`),
		list:     p.reader(page),
		listAll:  p.reader(pageOfAll),
		underWay: p.reader(`SELECT coalesce(whole, brief) FROM runs WHERE stage = 0 ORDER BY started DESC, id DESC`),
	}
}

// Put implements session.Runs.
func (s *runs) Put(ctx context.Context, r core.Run) error {
	if err := session.CheckRun(r); err != nil {
		return err
	}
	return s.putBy(ctx, s.put, r)
}

func (s *runs) putBy(ctx context.Context, put statement, r core.Run) error {
	brief, whole, err := encodeRun(r)
	if err != nil {
		return err
	}
	var ended any
	if r.State != core.RunUnderWay {
		ended = stamp(session.EndOf(r))
	}
	n, err := put.exec(ctx, name(r.ID), name(r.Owner), session.Stage(r.State), stamp(r.Started), ended, brief, whole)
	if err == nil && n == 0 {
		err = session.ErrSettled(r)
	}
	return err
}

// TakeOver implements session.Runs.
func (s *runs) TakeOver(ctx context.Context, id, from, to string) error {
	return s.db.change(ctx, "", func(ctx context.Context, tx *sql.Tx) error {
		var text []byte
		err := s.read.in(ctx, tx).row(ctx, name(id)).Scan(&text)
		if isNone(err) {
			return session.ErrTaken(id, from)
		}
		if err != nil {
			return err
		}
		r, err := s.db.decodeRun(text)
		if err == nil && r.Server != from {
			err = session.ErrTaken(id, from)
		}
		if err != nil {
			return err
		}
		r.Server = to
		return s.putBy(ctx, s.put.in(ctx, tx), r)
	})
}

// Get implements session.Runs.
func (s *runs) Get(ctx context.Context, owner, id string) (core.Run, error) {
	var text []byte
	err := s.get.row(ctx, name(id), name(owner)).Scan(&text)
	if isNone(err) {
		return core.Run{}, core.Errorf(core.ErrNotFound, "there is no run %.100q", id)
	}
	if err != nil {
		return core.Run{}, err
	}
	return s.db.decodeRun(text)
}

// List implements session.Runs.
func (s *runs) List(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	if limit < 1 {
		return nil, core.Errorf(core.ErrInvalid, "a list of %d runs was asked for; it has at least 1", limit)
	}
	bound := endOfTime
	if !before.IsZero() {
		bound = stamp(before)
	}
	if owner == "" {
		return documents(ctx, s.listAll, s.db.decodeRun, bound, limit-1)
	}
	return documents(ctx, s.list, s.db.decodeRun, name(owner), bound, limit-1)
}

// UnderWay implements session.Runs.
func (s *runs) UnderWay(ctx context.Context) ([]core.Run, error) {
	return documents(ctx, s.underWay, s.db.decodeRun)
}

// Sweep implements session.Runs.
func (s *runs) Sweep(ctx context.Context, before time.Time) (int, error) {
	return s.sweep.exec(ctx, stamp(before))
}

// Trim implements session.Runs. Each run is a step of its own, so that nobody waits for all.
func (s *runs) Trim(ctx context.Context, room int64) (int, error) {
	for all := 0; ; {
		list, err := documents(ctx, s.beyond, s.db.decodeRun, room)
		if err != nil {
			return all, err
		}
		n := 0
		for _, r := range list {
			changed, err := s.trimOne(ctx, r)
			if err != nil {
				return all + n, err
			}
			n += changed
		}
		if all += n; n == 0 {
			return all, nil
		}
	}
}

// trimOne changes nothing if another server was quicker.
func (s *runs) trimOne(ctx context.Context, r core.Run) (int, error) {
	brief, _, err := encodeRun(session.Trimmed(r))
	if err != nil {
		return 0, err
	}
	return s.trim.exec(ctx, brief, name(r.ID))
}
