package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/sqlstore"
	"github.com/boxwright/boxwright/core"
)

// schema has the steps from an empty file to today's, in their order by name. A step that was released never
// changes. The file's user_version is how many of them it has seen.
//
//go:embed schema/*.sql
var schema embed.FS

// migrate takes the file to today's schema. SQLite does not always wait when several open a new file at once.
func (d *DB) migrate(ctx context.Context) error {
	for {
		err := d.tryMigrate(ctx)
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (d *DB) tryMigrate(ctx context.Context) error {
	steps, err := sqlstore.Steps(schema)
	if err != nil {
		return core.Errorf(core.ErrInternal, "the schema cannot be read: %w", err)
	}
	seen, err := d.version(ctx, d.write)
	if err != nil || seen == len(steps) {
		return err
	}
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return d.fault(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if seen, err = d.version(ctx, tx); err != nil || seen == len(steps) {
		return err // another process was quicker
	}
	for _, step := range append(steps[seen:], fmt.Sprintf("PRAGMA user_version = %d", len(steps))) {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return d.fault(ctx, err)
		}
	}
	return d.fault(ctx, tx.Commit())
}

// querier is a pool or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version is how many steps the file has seen, at most as many as there are.
func (d *DB) version(ctx context.Context, from querier) (seen int, err error) {
	if err := from.QueryRowContext(ctx, "PRAGMA user_version").Scan(&seen); err != nil {
		return 0, d.fault(ctx, err)
	}
	known, err := sqlstore.Steps(schema)
	if err == nil && (seen < 0 || seen > len(known)) {
		return 0, core.Errorf(core.ErrUnsupported, "the file %s was made by a newer Boxwright: its format is %d, this one knows %d", d.path, seen, len(known)).
			WithHint("run the newer one, or move the file away: its sessions, runs, environments, users and keys are then forgotten")
	}
	return seen, err
}
