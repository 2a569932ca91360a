// Package postgres opens a PostgreSQL database for sessions, runs, the index of environments, and users with their
// keys and what they did. What is in it, package sqlstore says.
//
// All servers of an installation have it open at once. What a method has put is on the database's disk when it
// returns, as far as the database is set to see to that. A database that goes away makes calls fail, as
// core.ErrUnavailable; when it is back the next call finds it.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/boxwright/boxwright/adapters/storage/sqlstore"
	"github.com/boxwright/boxwright/core"
)

// Options are an operator's or a test's wishes.
type Options struct {
	// Schema is where the tables are: lower-case letters, digits and _. "" is boxwright.
	Schema string
	// Installation is the one whose sessions and runs these are. The first that opens the database has it. ""
	// does not ask.
	Installation string
	// Limit bounds each call. 0 is 10 s. A call's own context may end it sooner.
	Limit time.Duration
}

const (
	defaultSchema = "boxwright"
	defaultLimit  = 10 * time.Second
	// idleLimit bounds how long the server lets a transaction wait for us, as locks stay so long of a machine that
	// lost its power.
	idleLimit = 30 * time.Second
	// connectLimit bounds an attempt to connect, unless the address says less than Limit.
	connectLimit = 5 * time.Second
	openLimit    = 20 * time.Second

	maxConnections = 16
	maxIdle        = 4
)

// DB is an open database.
type DB struct {
	*sqlstore.Store // of what is in it

	schema string
	pool   *sql.DB
	closed atomic.Bool
}

// Open connects to the database of a URL, or of a list of key=value as libpq has it, and makes the schema and its
// tables if they are missing. An address that cannot be read is core.ErrInvalid. A server that cannot be reached, or
// refuses us, is core.ErrUnavailable; one of a newer Boxwright, and another installation's, is core.ErrUnsupported.
// No error holds the address or its password.
func Open(url string, opts Options) (*DB, error) {
	opts = opts.withDefaults()
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`).MatchString(opts.Schema) {
		return nil, core.Errorf(core.ErrInvalid, "%.100q cannot be the name of a schema", opts.Schema).
			WithHint("use at most 63 lower-case letters, digits and _")
	}
	config, err := configOf(url, opts)
	if err != nil {
		return nil, err
	}
	d := &DB{schema: opts.Schema, pool: stdlib.OpenDB(*config, stdlib.OptionShouldPing(mayBeLost))}
	d.pool.SetMaxOpenConns(maxConnections)
	d.pool.SetConnMaxLifetime(30 * time.Minute)
	d.pool.SetConnMaxIdleTime(5 * time.Minute)
	d.pool.SetMaxIdleConns(maxIdle)
	ctx, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	if err := d.prepare(ctx, opts); err != nil {
		_ = d.Close()
		return nil, atStart(err)
	}
	return d, nil
}

// atStart is an error as it is when there was no connection yet.
func atStart(err error) error {
	if failed, ok := errors.AsType[*core.Error](err); ok && failed.Hint == again {
		return failed.WithHint("see to it that the database runs, and that storage.postgres.url leads to it")
	}
	return err
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	return o
}

// configOf reads the address. The library's errors may show parts of a password, so they stay untold.
func configOf(url string, opts Options) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if file, is := errors.AsType[*fs.PathError](err); is {
		return nil, core.Errorf(core.ErrInvalid, "a file that the address of the PostgreSQL database names cannot be read: %w", file)
	}
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the address of the PostgreSQL database cannot be read").
			WithHint("it looks like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full; what is special in a password is written as %%XX")
	}
	for name, value := range map[string]string{
		"application_name": "boxwright", "statement_timeout": milliseconds(opts.Limit), "idle_in_transaction_session_timeout": milliseconds(idleLimit),
	} {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	config.RuntimeParams["search_path"] = pgx.Identifier{opts.Schema}.Sanitize()
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > opts.Limit {
		config.ConnectTimeout = connectLimit
	}
	// A server that is gone without a word is noticed within half a minute, not when somebody waits for it.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	config.DialFunc, config.OnPgError = dialer.DialContext, staysGood
	return config, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// mayBeLost tells whether to ask the server before a connection is used again.
func mayBeLost(_ context.Context, p stdlib.ShouldPingParams) bool {
	cut := p.Conn.PgConn().CheckConn() != nil //nolint:staticcheck // unlike a ping it costs no round trip, and sees a server that was restarted just now
	return cut || p.IdleDuration > time.Second
}

func (d *DB) prepare(ctx context.Context, opts Options) error {
	if err := d.migrate(ctx); err != nil {
		return d.fault(ctx, err)
	}
	if err := d.claim(ctx, opts.Installation); err != nil {
		return d.fault(ctx, err)
	}
	store, err := sqlstore.New(ctx, sqlstore.Database{Engine: engine{d}, Write: d.pool, Read: d.pool, Lock: "FOR UPDATE", Limit: opts.Limit})
	if err != nil {
		return d.fault(ctx, err)
	}
	d.Store = store
	return nil
}

// claim takes the database for an installation, or finds that it is its.
func (d *DB) claim(ctx context.Context, installation string) error {
	if installation == "" {
		return nil
	}
	_, err := d.pool.ExecContext(ctx, `INSERT INTO installation (one, id) VALUES (1, $1) ON CONFLICT DO NOTHING`, installation)
	if err != nil {
		return err
	}
	var owner string
	if err := d.pool.QueryRowContext(ctx, `SELECT id FROM installation`).Scan(&owner); err != nil {
		return err
	}
	if owner != installation {
		return core.Errorf(core.ErrUnsupported, "the schema %s holds the sessions and runs of the installation %.40q, not of this one, %.40q: each would take the other's boxes for gone",
			d.schema, owner, installation).
			WithHint("set another storage.postgres.schema, or use the same storage.dir; if that folder is gone for good, DELETE FROM %s.installation", d.schema)
	}
	return nil
}

// Close ends all connections. A second Close does nothing.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	return d.pool.Close()
}
