package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/dependency/dependencytest"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/identity/identitytest"
	"github.com/boxwright/boxwright/ports/session/sessiontest"
)

func open(t *testing.T, server *postgrestest.Server, schema string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(server.URL, postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// schemaOf is what a folder is for stores of files.
func schemaOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "test_" + hex.EncodeToString(sum[:8])
}

// TestStores holds every store of the database to its port.
func TestStores(t *testing.T) {
	server := postgrestest.Serve(t)
	sessions := sessiontest.Harness{Lasts: true, Open: func(t *testing.T, dir string) sessiontest.Opened {
		db := open(t, server, schemaOf(dir))
		return sessiontest.Opened{Sessions: db.Sessions(), Runs: db.Runs(), Close: db.Close}
	}}
	t.Run("sessions", func(t *testing.T) { sessiontest.RunStore(t, sessions) })
	t.Run("runs", func(t *testing.T) { sessiontest.RunRuns(t, sessions) })
	t.Run("environments", func(t *testing.T) {
		dependencytest.Run(t, func(t *testing.T) dependency.Index { return open(t, server, schemaOf(t.TempDir())).Environments() })
	})
	t.Run("identity", func(t *testing.T) {
		identitytest.Run(t, identitytest.Harness{Lasts: true, Open: func(t *testing.T, dir string) identity.Store {
			return open(t, server, schemaOf(dir)).Identity()
		}})
	})
}
