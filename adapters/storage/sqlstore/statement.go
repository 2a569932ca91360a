package sqlstore

import (
	"context"
	"database/sql"
	"errors"
)

// statement is a prepared one. Its errors have their kinds.
type statement struct {
	store *Store
	stmt  *sql.Stmt
}

// name is an argument for a column of texts of any bytes, by which rows are found.
type name string

// in is the statement within a transaction.
func (s statement) in(ctx context.Context, tx *sql.Tx) statement {
	return statement{s.store, tx.StmtContext(ctx, s.stmt)} //nolint:sqlclosecheck // closed with its transaction
}

// bound are arguments as the driver takes them, and about how many bytes they are.
func (s statement) bound(args []any) (bound []any, size int) {
	bound = make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case name:
			bound[i] = s.store.on.Name(string(arg))
		case string:
			bound[i], size = arg, size+len(arg)
		case []byte:
			bound[i], size = arg, size+len(arg)
		default:
			bound[i] = arg
		}
	}
	return bound, size
}

// exec tells how many rows it changed.
func (s statement) exec(ctx context.Context, args ...any) (int, error) {
	ctx, cancel := s.store.limited(ctx)
	defer cancel()
	bound, size := s.bound(args)
	defer s.store.on.Wrote(size)
	result, err := s.stmt.ExecContext(ctx, bound...)
	if err != nil {
		return 0, s.store.fault(ctx, err)
	}
	n, err := result.RowsAffected()
	return int(n), s.store.fault(ctx, err)
}

// scanner is a row.
type scanner interface{ Scan(into ...any) error }

// row is the first one of the answer. Its Scan, which has to be called, returns sql.ErrNoRows if there is none.
func (s statement) row(ctx context.Context, args ...any) scanner {
	ctx, cancel := s.store.limited(ctx)
	bound, _ := s.bound(args)
	return onlyRow{row: s.stmt.QueryRowContext(ctx, bound...), store: s.store, ctx: ctx, end: cancel}
}

type onlyRow struct {
	row   *sql.Row
	store *Store
	ctx   context.Context //nolint:containedctx // it lives until Scan
	end   context.CancelFunc
}

func (r onlyRow) Scan(into ...any) error {
	defer r.end()
	return r.store.fault(r.ctx, r.row.Scan(into...))
}

func isNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// each calls read with every row, until that fails.
func (s statement) each(ctx context.Context, read func(scanner) error, args ...any) error {
	ctx, cancel := s.store.limited(ctx)
	defer cancel()
	bound, _ := s.bound(args)
	rows, err := s.stmt.QueryContext(ctx, bound...)
	if err != nil {
		return s.store.fault(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return s.store.fault(ctx, err)
		}
	}
	return s.store.fault(ctx, rows.Err())
}

// list reads all rows.
func list[T any](ctx context.Context, s statement, read func(scanner) (T, error), args ...any) (all []T, err error) {
	err = s.each(ctx, func(row scanner) error {
		item, err := read(row)
		if err == nil {
			all = append(all, item)
		}
		return err
	}, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// documents decodes the one column of all rows. A row that is damaged is left out, so that it costs only itself:
// whoever asks for it by its id is told.
func documents[T any](ctx context.Context, s statement, decode func([]byte) (T, error), args ...any) (all []T, err error) {
	err = s.each(ctx, func(row scanner) error {
		var text sql.RawBytes
		if err := row.Scan(&text); err != nil {
			return err
		}
		if item, err := decode(text); err == nil {
			all = append(all, item)
		}
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// flag is a column of a yes or no.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
