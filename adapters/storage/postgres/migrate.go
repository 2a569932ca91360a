package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boxwright/boxwright/adapters/storage/sqlstore"
	"github.com/boxwright/boxwright/core"
)

// schema has the steps from an empty schema to today's, in their order by name. A step that was released never
// changes. The table format says how many of them the schema has seen.
//
//go:embed schema/*.sql
var schema embed.FS

// migrate takes the schema to today's. Of servers that start at once, one does it and the others wait.
func (d *DB) migrate(ctx context.Context) error {
	steps, err := sqlstore.Steps(schema)
	if err != nil {
		return core.Errorf(core.ErrInternal, "the schema cannot be read: %w", err)
	}
	tx, err := d.begin(ctx, "the schema")
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	seen, err := d.seen(ctx, tx)
	if err != nil || seen == len(steps) {
		return err
	}
	if seen > len(steps) {
		return core.Errorf(core.ErrUnsupported, "the schema %s was made by a newer Boxwright: its format is %d, this one knows %d", d.schema, seen, len(steps)).
			WithHint("run the newer one, or set another storage.postgres.schema")
	}
	for _, step := range append(d.begun(seen, steps), fmt.Sprintf("UPDATE format SET steps = %d", len(steps))) {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// begun are the steps that are missing. The schema may be there, as users who may not make one are given one.
func (d *DB) begun(seen int, steps []string) []string {
	if seen >= 0 {
		return steps[seen:]
	}
	return append([]string{"CREATE TABLE format (steps INTEGER NOT NULL)", "INSERT INTO format VALUES (0)"}, steps...)
}

// seen is how many steps the schema has seen; below 0, it has none of our tables.
func (d *DB) seen(ctx context.Context, tx *sql.Tx) (steps int, err error) {
	var hasSchema, hasFormat bool
	err = tx.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL, to_regclass($1 || '.format') IS NOT NULL`, d.schema).Scan(&hasSchema, &hasFormat)
	if err == nil && !hasSchema {
		_, err = tx.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{d.schema}.Sanitize())
	}
	if err != nil || !hasFormat {
		return -1, err
	}
	err = tx.QueryRowContext(ctx, "SELECT steps FROM format").Scan(&steps)
	return steps, err
}
