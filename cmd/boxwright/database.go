package main

import (
	"path/filepath"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/session"
)

// database is where what outlives the server is kept.
type database interface {
	Sessions() session.Store
	Runs() session.Runs
	Environments() dependency.Index
	Identity() identity.Store
	Close() error
}

// databaseFile is in the state folder.
const databaseFile = "boxwright.db"

func databasePath(c config.Storage) string { return filepath.Join(c.Dir, databaseFile) }

// inMemory, as a setting of where something is kept, keeps it in the server's memory.
const inMemory = "memory"

// openDatabase opens the database of the settings, which others may have open too. A server says which
// installation it is of; commands say "".
func openDatabase(c config.Storage, installation string) (database, error) {
	switch c.Database {
	case config.DatabaseMemory:
		return nil, core.Errorf(core.ErrUnsupported, "storage.database is memory: each server keeps what it knows for itself").
			WithHint("set storage.database to sqlite or postgres")
	case config.DatabasePostgres:
		db, err := postgres.Open(c.Postgres.URL.Reveal(), postgres.Options{Schema: c.Postgres.Schema, Installation: installation})
		if err != nil {
			return nil, err
		}
		return db, nil
	default:
		db, err := sqlite.Open(databasePath(c), sqlite.Options{})
		if err != nil {
			return nil, err
		}
		return db, nil
	}
}

// forgetsEnvironments tells whether the index of what is installed ends with the server.
func forgetsEnvironments(c config.Storage) bool {
	return c.Database == config.DatabaseMemory || c.Environments == inMemory
}
