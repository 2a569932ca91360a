package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/dependency/dependencytest"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/identity/identitytest"
	"github.com/boxwright/boxwright/ports/session/sessiontest"
)

// fileIn is the file of a folder that is missing, and has what URIs and shells stumble over in its name.
func fileIn(dir string) string { return filepath.Join(dir, "it's? 100%#ü&x=1", "sessions.db") }

func open(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func harness() sessiontest.Harness {
	return sessiontest.Harness{Lasts: true, Open: func(t *testing.T, dir string) sessiontest.Opened {
		db := open(t, fileIn(dir))
		return sessiontest.Opened{Sessions: db.Sessions(), Runs: db.Runs(), Close: db.Close}
	}}
}

func TestSessions(t *testing.T) { sessiontest.RunStore(t, harness()) }

func TestRuns(t *testing.T) { sessiontest.RunRuns(t, harness()) }

func TestEnvironments(t *testing.T) {
	dependencytest.Run(t, func(t *testing.T) dependency.Index { return open(t, fileIn(t.TempDir())).Environments() })
}

func TestIdentity(t *testing.T) {
	identitytest.Run(t, identitytest.Harness{Lasts: true, Open: func(t *testing.T, dir string) identity.Store {
		return open(t, fileIn(dir)).Identity()
	}})
}
