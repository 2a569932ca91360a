// Package sqlite opens a file for sessions, runs, the index of environments, and users with their keys and what they
// did, so that they outlive the server. What is in it, package sqlstore says.
//
// All servers of an installation have the file open at once. What a method has put survives the end of the
// process, whatever way it ends; an end of the machine may take the last moments with it.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/boxwright/boxwright/adapters/storage/sqlstore"
	"github.com/boxwright/boxwright/core"
)

// Options are an operator's or a test's wishes.
type Options struct {
	// Wait bounds how long a call waits while another process changes the file. 0 is 10 s. A call's own
	// context may end it sooner.
	Wait time.Duration
}

const (
	defaultWait = 10 * time.Second
	openLimit   = 10 * time.Second
)

// DB is an open file.
type DB struct {
	*sqlstore.Store // of what is in it

	path string
	// SQLite lets one connection write at a time: those of this process queue for it in Go, in their order.
	write, read *sql.DB
	closed      atomic.Bool
	logged      atomic.Int64 // bytes since the log was moved, about
	moving      sync.Mutex   // held while the log is moved, and for ever once it is closed
}

// maxReaders bounds connections that read; one of them stays open.
const maxReaders = 4

// Open opens the file, and makes it and its folder if they are missing. A file that is damaged, or cannot be
// read or written now, is core.ErrUnavailable; no room for it is core.ErrExhausted; one of a newer Boxwright is
// core.ErrUnsupported.
func Open(path string, opts Options) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the path of the file for sessions cannot be used: %w", err)
	}
	if opts.Wait <= 0 {
		opts.Wait = defaultWait
	}
	d := &DB{path: path}
	if err := d.makeFile(); err != nil {
		return nil, err
	}
	if err := d.connect(opts); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	if err := d.prepare(ctx); err != nil {
		_ = d.Close()
		if ctx.Err() != nil {
			err = d.busy(err)
		}
		return nil, err
	}
	return d, nil
}

// makeFile sees to it that nobody else may read the file. One that exists is never opened here: to close it
// again would take the process's locks on it away.
func (d *DB) makeFile() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return d.unusable(err)
	}
	made, err := os.OpenFile(d.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return d.fault(context.Background(), made.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return d.unusable(err)
	}
	info, err := os.Stat(d.path)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(d.path, 0o600)
	}
	if err != nil {
		return d.unusable(err)
	}
	return nil
}

// connect prepares two pools; connections are made when they are needed.
func (d *DB) connect(opts Options) error {
	settings := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", opts.Wait.Milliseconds()),
			"journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-512)", "trusted_schema(0)",
			fmt.Sprintf("wal_autocheckpoint(%d)", lastResort), fmt.Sprintf("journal_size_limit(%d)", 2*moveAfter),
		},
		"_txlock": {"immediate"}, // a transaction that reads first could not always go on to write
	}
	connector, err := driver.NewConnector((&url.URL{Scheme: "file", Path: d.path, RawQuery: settings.Encode()}).String())
	if err != nil {
		return core.Errorf(core.ErrInternal, "the file %s cannot be named to SQLite: %w", d.path, err)
	}
	d.write, d.read = sql.OpenDB(connector), sql.OpenDB(connector)
	d.write.SetMaxOpenConns(1)
	d.read.SetMaxOpenConns(maxReaders)
	d.keepIdle()
	return nil
}

func (d *DB) keepIdle() {
	d.write.SetMaxIdleConns(1)
	d.read.SetMaxIdleConns(1)
}

// renew makes the next calls use new connections: one that was made while the disk was read-only stays so.
func (d *DB) renew() {
	d.write.SetMaxIdleConns(0)
	d.read.SetMaxIdleConns(0)
	d.keepIdle()
}

func (d *DB) prepare(ctx context.Context) error {
	if err := d.migrate(ctx); err != nil {
		return err
	}
	store, err := sqlstore.New(ctx, sqlstore.Database{Engine: engine{d}, Write: d.write, Read: d.read})
	if code(err) == codes.SQLITE_ERROR {
		return d.damaged(err) // the tables are not as the schema made them
	}
	d.Store = store
	return d.fault(ctx, err)
}

// Close ends all connections. Calls that are under way fail. A second Close does nothing.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.moving.Lock()
	return errors.Join(d.read.Close(), d.write.Close())
}

// engine is the file as sqlstore has it.
type engine struct{ db *DB }

// Name implements sqlstore.Engine: SQLite's texts hold any bytes.
func (engine) Name(text string) any { return text }

// Begin implements sqlstore.Engine: there is one writer, whatever it writes about.
func (e engine) Begin(ctx context.Context, _ string) (*sql.Tx, error) {
	return e.db.write.BeginTx(ctx, nil)
}

// IsCollision implements sqlstore.Engine.
func (engine) IsCollision(err error) bool { return isCollision(err) }

// Fault implements sqlstore.Engine.
func (e engine) Fault(ctx context.Context, err error) error { return e.db.fault(ctx, err) }

// Damaged implements sqlstore.Engine.
func (e engine) Damaged(err error) error { return e.db.damaged(err) }

// Wrote implements sqlstore.Engine.
func (e engine) Wrote(bytes int) { e.db.changed(bytes) }
