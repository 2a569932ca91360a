package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

type auditStatements struct {
	appendRecord, sweepRecords statement
	records, recordsOfAll      statement
}

const recordColumns = `at, principal, credential, action, target, place, code, outcome`

func (p *preparing) audit() auditStatements {
	return auditStatements{
		appendRecord: p.writer(`INSERT INTO audit (` + recordColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`),
		sweepRecords: p.writer(`DELETE FROM audit WHERE at < $1`),
		records: p.reader(`SELECT ` + recordColumns + ` FROM audit WHERE principal = $1 AND at < $2
			ORDER BY at DESC, number DESC LIMIT $3`),
		recordsOfAll: p.reader(`SELECT ` + recordColumns + ` FROM audit WHERE at < $1 ORDER BY at DESC, number DESC LIMIT $2`),
	}
}

// Append implements identity.Audit.
func (s *people) Append(ctx context.Context, r core.AuditRecord) error {
	_, err := s.appendRecord.exec(ctx, stamp(r.At), []byte(r.Principal), []byte(r.Credential), r.Action,
		[]byte(r.Target), []byte(r.Where), []byte(r.Code), r.Outcome)
	return err
}

// Records implements identity.Audit.
func (s *people) Records(ctx context.Context, principal string, before time.Time, limit int) ([]core.AuditRecord, error) {
	if limit < 1 {
		return nil, identity.ErrPage(limit)
	}
	bound := endOfTime
	if !before.IsZero() {
		bound = stamp(before)
	}
	if principal == "" {
		return list(ctx, s.recordsOfAll, s.record, bound, limit)
	}
	return list(ctx, s.records, s.record, []byte(principal), bound, limit)
}

func (s *people) record(row scanner) (r core.AuditRecord, err error) {
	var at string
	err = row.Scan(&at, &r.Principal, &r.Credential, &r.Action, &r.Target, &r.Where, &r.Code, &r.Outcome)
	if err != nil {
		return r, err
	}
	r.At, err = s.db.time(at)
	return r, err
}

// SweepRecords implements identity.Audit.
func (s *people) SweepRecords(ctx context.Context, before time.Time) (int, error) {
	return s.sweepRecords.exec(ctx, stamp(before))
}

type usageStatements struct {
	spend, sweepSpending                 statement
	total, hold, release                 statement
	spent, holding, holdings, everything statement
}

const holdingColumns = `run, owner, bytes, since`

func (p *preparing) usage() usageStatements {
	return usageStatements{
		spend: p.writer(`INSERT INTO spending (owner, began, ns) VALUES ($1, $2, $3)
			ON CONFLICT (owner, began) DO UPDATE SET ns = spending.ns + excluded.ns RETURNING ns`),
		sweepSpending: p.writer(`DELETE FROM spending WHERE began < $1`),
		total:         p.writer(`SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM holdings WHERE owner = $1`),
		hold: p.writer(`INSERT INTO holdings (run, owner, bytes, since) VALUES ($1, $2, $3, $4)
			ON CONFLICT (run) DO UPDATE SET bytes = CASE WHEN holdings.bytes + $5 > 0 THEN holdings.bytes + $5 ELSE 0 END
			WHERE holdings.owner = excluded.owner`),
		release: p.writer(`DELETE FROM holdings WHERE run = $1`),

		spent:      p.reader(`SELECT ns FROM spending WHERE owner = $1 AND began = $2`),
		holding:    p.reader(`SELECT ` + holdingColumns + ` FROM holdings WHERE run = $1`),
		holdings:   p.reader(`SELECT ` + holdingColumns + ` FROM holdings WHERE owner = $1 ORDER BY since, run`),
		everything: p.reader(`SELECT ` + holdingColumns + ` FROM holdings ORDER BY since, run`),
	}
}

// Spend implements identity.Usage.
func (s *people) Spend(ctx context.Context, owner string, window time.Time, more time.Duration) (total time.Duration, err error) {
	if more == 0 {
		err = s.spent.row(ctx, name(owner), stamp(window)).Scan(&total)
	} else {
		defer s.db.on.Wrote(0)
		err = s.spend.row(ctx, name(owner), stamp(window), int64(more)).Scan(&total)
	}
	if isNone(err) {
		return 0, nil
	}
	return total, err
}

// SweepSpending implements identity.Usage.
func (s *people) SweepSpending(ctx context.Context, before time.Time) error {
	_, err := s.sweepSpending.exec(ctx, stamp(before))
	return err
}

// Hold implements identity.Usage.
func (s *people) Hold(ctx context.Context, h core.Holding, most int64) error {
	return s.db.change(ctx, "holdings of "+h.Owner, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.fits(ctx, tx, h, most); err != nil {
			return err
		}
		n, err := s.hold.in(ctx, tx).exec(ctx, name(h.Run), name(h.Owner), max(0, h.Bytes), stamp(h.Since), h.Bytes)
		if err == nil && n == 0 {
			err = identity.ErrHeld(h.Run)
		}
		return err
	})
}

// fits refuses what would be too much.
func (s *people) fits(ctx context.Context, tx *sql.Tx, h core.Holding, most int64) error {
	if most <= 0 || h.Bytes <= 0 {
		return nil
	}
	var used int64
	if err := s.total.in(ctx, tx).row(ctx, name(h.Owner)).Scan(&used); err != nil {
		return err
	}
	if used+h.Bytes > most {
		return identity.ErrFull(used, h.Bytes, most)
	}
	return nil
}

// Holding implements identity.Usage.
func (s *people) Holding(ctx context.Context, run string) (core.Holding, error) {
	h, err := s.readHolding(s.holding.row(ctx, name(run)))
	if isNone(err) {
		err = identity.ErrNoHolding(run)
	}
	return h, err
}

func (s *people) readHolding(row scanner) (h core.Holding, err error) {
	var since string
	if err = row.Scan(&h.Run, &h.Owner, &h.Bytes, &since); err != nil {
		return h, err
	}
	h.Since, err = s.db.time(since)
	return h, err
}

// Holdings implements identity.Usage.
func (s *people) Holdings(ctx context.Context, owner string) ([]core.Holding, error) {
	if owner == "" {
		return list(ctx, s.everything, s.readHolding)
	}
	return list(ctx, s.holdings, s.readHolding, name(owner))
}

// Release implements identity.Usage.
func (s *people) Release(ctx context.Context, run string) error {
	_, err := s.release.exec(ctx, name(run))
	return err
}
