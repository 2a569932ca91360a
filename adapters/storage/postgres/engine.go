package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// engine is the database as sqlstore has it.
type engine struct{ db *DB }

// A text that PostgreSQL cannot hold, or that is too long for an index, is known by its hash.
const (
	hashed  = "sha256:"
	longest = 256 // bytes
)

// Name implements sqlstore.Engine.
func (engine) Name(text string) any {
	if len(text) <= longest && utf8.ValidString(text) && !strings.Contains(text, "\x00") && !strings.HasPrefix(text, hashed) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hashed + hex.EncodeToString(sum[:])
}

// Begin implements sqlstore.Engine.
func (e engine) Begin(ctx context.Context, about string) (*sql.Tx, error) {
	return e.db.begin(ctx, about)
}

// begin begins a transaction that has the lock of what it is about; it gives it up when it ends.
func (d *DB) begin(ctx context.Context, about string) (*sql.Tx, error) {
	tx, err := d.pool.BeginTx(ctx, nil)
	if err != nil || about == "" {
		return tx, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, d.schema+" "+about); err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// IsCollision implements sqlstore.Engine.
func (engine) IsCollision(err error) bool { return stateOf(err) == uniqueViolation }

// Fault implements sqlstore.Engine.
func (e engine) Fault(ctx context.Context, err error) error { return e.db.fault(ctx, err) }

// Damaged implements sqlstore.Engine.
func (e engine) Damaged(err error) error { return e.db.damaged(err) }

// Wrote implements sqlstore.Engine.
func (engine) Wrote(int) {}
