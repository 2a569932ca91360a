package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

type auditStatements struct {
	appendRecord, sweepRecords *sql.Stmt
	records, recordsOfAll      *sql.Stmt
}

const recordColumns = `at, principal, credential, action, target, place, code, outcome`

func (p *preparing) audit() auditStatements {
	return auditStatements{
		appendRecord: p.writer(`INSERT INTO audit (` + recordColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`),
		sweepRecords: p.writer(`DELETE FROM audit WHERE at < ?`),
		records: p.reader(`SELECT ` + recordColumns + ` FROM audit WHERE principal = ? AND at < ?
			ORDER BY at DESC, number DESC LIMIT ?`),
		recordsOfAll: p.reader(`SELECT ` + recordColumns + ` FROM audit WHERE at < ? ORDER BY at DESC, number DESC LIMIT ?`),
	}
}

// Append implements identity.Audit.
func (s *people) Append(ctx context.Context, r core.AuditRecord) error {
	defer s.db.changed(len(r.Code))
	_, err := s.appendRecord.ExecContext(ctx, stamp(r.At), []byte(r.Principal), []byte(r.Credential), r.Action,
		[]byte(r.Target), []byte(r.Where), []byte(r.Code), r.Outcome)
	return s.db.fault(ctx, err)
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
	read := func(row scanner) (core.AuditRecord, error) { return s.record(ctx, row) }
	if principal == "" {
		return rowsOf(ctx, s.db, read, s.recordsOfAll, bound, limit)
	}
	return rowsOf(ctx, s.db, read, s.records, []byte(principal), bound, limit)
}

func (s *people) record(ctx context.Context, row scanner) (r core.AuditRecord, err error) {
	var at string
	err = row.Scan(&at, &r.Principal, &r.Credential, &r.Action, &r.Target, &r.Where, &r.Code, &r.Outcome)
	if err != nil {
		return r, s.db.fault(ctx, err)
	}
	r.At, err = s.db.time(at)
	return r, err
}

// SweepRecords implements identity.Audit.
func (s *people) SweepRecords(ctx context.Context, before time.Time) (int, error) {
	defer s.db.changed(0)
	result, err := s.sweepRecords.ExecContext(ctx, stamp(before))
	if err != nil {
		return 0, s.db.fault(ctx, err)
	}
	n, err := result.RowsAffected()
	return int(n), s.db.fault(ctx, err)
}

type usageStatements struct {
	spend, sweepSpending                 *sql.Stmt
	held, total, hold, release           *sql.Stmt
	spent, holding, holdings, everything *sql.Stmt
}

const holdingColumns = `run, owner, bytes, since`

func (p *preparing) usage() usageStatements {
	return usageStatements{
		spend: p.writer(`INSERT INTO spending (owner, began, ns) VALUES (?, ?, ?)
			ON CONFLICT (owner, began) DO UPDATE SET ns = ns + excluded.ns RETURNING ns`),
		sweepSpending: p.writer(`DELETE FROM spending WHERE began < ?`),
		held:          p.writer(`SELECT owner FROM holdings WHERE run = ?`),
		total:         p.writer(`SELECT coalesce(sum(bytes), 0) FROM holdings WHERE owner = ?`),
		hold: p.writer(`INSERT INTO holdings (run, owner, bytes, since) VALUES (?, ?, max(0, ?3), ?4)
			ON CONFLICT (run) DO UPDATE SET bytes = max(0, bytes + ?3)`),
		release: p.writer(`DELETE FROM holdings WHERE run = ?`),

		spent:      p.reader(`SELECT ns FROM spending WHERE owner = ? AND began = ?`),
		holding:    p.reader(`SELECT ` + holdingColumns + ` FROM holdings WHERE run = ?`),
		holdings:   p.reader(`SELECT ` + holdingColumns + ` FROM holdings WHERE owner = ? ORDER BY since, run`),
		everything: p.reader(`SELECT ` + holdingColumns + ` FROM holdings ORDER BY since, run`),
	}
}

// Spend implements identity.Usage.
func (s *people) Spend(ctx context.Context, owner string, window time.Time, more time.Duration) (total time.Duration, err error) {
	if more == 0 {
		err = s.spent.QueryRowContext(ctx, owner, stamp(window)).Scan(&total)
	} else {
		defer s.db.changed(0)
		err = s.spend.QueryRowContext(ctx, owner, stamp(window), more).Scan(&total)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return total, s.db.fault(ctx, err)
}

// SweepSpending implements identity.Usage.
func (s *people) SweepSpending(ctx context.Context, before time.Time) error {
	_, err := s.sweepSpending.ExecContext(ctx, stamp(before))
	return s.db.fault(ctx, err)
}

// Hold implements identity.Usage.
func (s *people) Hold(ctx context.Context, h core.Holding, most int64) error {
	return s.db.change(ctx, func(tx *sql.Tx) error {
		var owner string
		err := tx.StmtContext(ctx, s.held).QueryRowContext(ctx, h.Run).Scan(&owner)
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return s.db.fault(ctx, err)
		case err == nil && owner != h.Owner:
			return identity.ErrHeld(h.Run)
		}
		if err := s.fits(ctx, tx, h, most); err != nil {
			return err
		}
		_, err = tx.StmtContext(ctx, s.hold).ExecContext(ctx, h.Run, h.Owner, h.Bytes, stamp(h.Since))
		return s.db.fault(ctx, err)
	})
}

// fits refuses what would be too much.
func (s *people) fits(ctx context.Context, tx *sql.Tx, h core.Holding, most int64) error {
	if most <= 0 || h.Bytes <= 0 {
		return nil
	}
	var used int64
	if err := tx.StmtContext(ctx, s.total).QueryRowContext(ctx, h.Owner).Scan(&used); err != nil {
		return s.db.fault(ctx, err)
	}
	if used+h.Bytes > most {
		return identity.ErrFull(used, h.Bytes, most)
	}
	return nil
}

// Holding implements identity.Usage.
func (s *people) Holding(ctx context.Context, run string) (core.Holding, error) {
	h, err := s.readHolding(ctx, s.holding.QueryRowContext(ctx, run))
	if errors.Is(err, sql.ErrNoRows) {
		err = identity.ErrNoHolding(run)
	}
	return h, err
}

func (s *people) readHolding(ctx context.Context, row scanner) (h core.Holding, err error) {
	var since string
	err = row.Scan(&h.Run, &h.Owner, &h.Bytes, &since)
	if errors.Is(err, sql.ErrNoRows) {
		return h, err
	}
	if err != nil {
		return h, s.db.fault(ctx, err)
	}
	h.Since, err = s.db.time(since)
	return h, err
}

// Holdings implements identity.Usage.
func (s *people) Holdings(ctx context.Context, owner string) ([]core.Holding, error) {
	read := func(row scanner) (core.Holding, error) { return s.readHolding(ctx, row) }
	if owner == "" {
		return rowsOf(ctx, s.db, read, s.everything)
	}
	return rowsOf(ctx, s.db, read, s.holdings, owner)
}

// Release implements identity.Usage.
func (s *people) Release(ctx context.Context, run string) error {
	defer s.db.changed(0)
	_, err := s.release.ExecContext(ctx, run)
	return s.db.fault(ctx, err)
}
