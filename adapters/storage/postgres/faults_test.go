package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/jackc/pgx/v5"

	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
	"github.com/boxwright/boxwright/core"
)

// raw is the database as another program sees it.
func raw(t *testing.T, server *postgrestest.Server) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(statement, err)
	}
}

// TestOpenedAtOnce: of servers that start at once on an empty database one makes the tables, and all go on.
func TestOpenedAtOnce(t *testing.T) {
	server := postgrestest.Serve(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			db, err := postgres.Open(server.URL, postgres.Options{Installation: "one"})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Sessions().Add(t.Context(), someSession(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := open(t, server, "").Sessions().List(t.Context(), "ann"); err != nil || len(list) != 8 {
		t.Errorf("of 8 sessions %d are kept; %v", len(list), err)
	}
}

// TestAnotherInstallation would take the first one's boxes for gone, as it cannot see them.
func TestAnotherInstallation(t *testing.T) {
	server := postgrestest.Serve(t)
	try := func(schema, installation string) error {
		db, err := postgres.Open(server.URL, postgres.Options{Schema: schema, Installation: installation})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	wantNone(t, "the first", map[string]error{"Open": try("", "one"), "Open again": try("", "one"), "Open by a command": try("", "")})
	if err := try("", "two"); core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("another: Open returned %v", err)
	}
	wantNone(t, "another schema", map[string]error{"Open": try("other", "two")})
}

func TestNewerFormat(t *testing.T) {
	server := postgrestest.Serve(t)
	open(t, server, "")
	other := raw(t, server)
	execute(t, other, "UPDATE boxwright.format SET steps = 99")
	if _, err := postgres.Open(server.URL, postgres.Options{}); core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), "99") {
		t.Errorf("Open returned %v", err)
	}
	execute(t, other, "UPDATE boxwright.format SET steps = 1")
	open(t, server, "")
}

// TestAddresses: what is wrong with an address is told without it, as there is a password in it.
func TestAddresses(t *testing.T) {
	for name, url := range map[string]string{
		"no address": "postgres//annabel:hunter2@db/x", "no port": "postgres://annabel:hunter2@db:port/x", "a raw password": "postgres://ann:hunter2#/@db/x",
		"no setting": "postgres://annabel:hunter2@db/x?sslmode=maybe", "no file": "postgres://annabel:hunter2@db/x?sslmode=verify-full&sslrootcert=/no/such/file", "": "host=db password=hunter2 port=x",
	} {
		_, err := postgres.Open(url, postgres.Options{})
		if core.KindOf(err) != core.ErrInvalid || strings.Contains(fmt.Sprintf("%+v", err), "hunter2") || strings.Contains(err.Error(), "annabel") {
			t.Errorf("%s: Open returned %v", name, err)
		}
	}
	_, err := postgres.Open("postgres://ann@db/x", postgres.Options{Schema: "a;b"})
	if core.KindOf(err) != core.ErrInvalid {
		t.Errorf("no schema: Open returned %v", err)
	}
}

// TestRefused: the server says no, and the error says why.
func TestRefused(t *testing.T) {
	server := postgrestest.Serve(t)
	other := raw(t, server)
	execute(t, other, "CREATE ROLE ann LOGIN PASSWORD 'hunter2'")
	for name, url := range map[string]string{
		"password authentication failed": "host=" + server.Dir() + " user=boxwright password=hunter3 dbname=postgres",
		`database "none" does not exist`: "host=" + server.Dir() + " user=ann password=hunter2 dbname=none",
		"permission denied":              "host=" + server.Dir() + " user=ann password=hunter2 dbname=postgres",
	} {
		_, err := postgres.Open(url, postgres.Options{})
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("Open returned %v, not %s", err, name)
		}
		wantAway(t, server, name, map[string]error{"Open": err})
		if strings.Contains(fmt.Sprint(err), "hunter") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
	// A schema that somebody made for it is enough.
	execute(t, other, "CREATE SCHEMA anns AUTHORIZATION ann")
	db, err := postgres.Open("host="+server.Dir()+" user=ann password=hunter2 dbname=postgres", postgres.Options{Schema: "anns"})
	if err != nil {
		t.Fatal(err)
	}
	wantNone(t, "in a schema of its own", map[string]error{"Put": db.Runs().Put(t.Context(), someRun("r")), "Close": db.Close()})
}

// TestADamagedRow costs only itself; tables that are not ours are told when it is opened.
func TestADamagedRow(t *testing.T) {
	server := postgrestest.Serve(t)
	db := open(t, server, "")
	for _, id := range []string{"good", "bad"} {
		run := someRun(id)
		run.State = core.RunUnderWay
		if err := errors.Join(db.Runs().Put(t.Context(), run), db.Sessions().Add(t.Context(), someSession(id))); err != nil {
			t.Fatal(err)
		}
	}
	other := raw(t, server)
	execute(t, other, `UPDATE boxwright.runs SET brief = '{', whole = '{' WHERE id = 'bad'; UPDATE boxwright.sessions SET session = '{' WHERE id = 'bad'`)
	if list, err := db.Runs().UnderWay(t.Context()); err != nil || len(list) != 1 || list[0].ID != "good" {
		t.Errorf("UnderWay returned %+v, %v", list, err)
	}
	if list, err := db.Sessions().List(t.Context(), ""); err != nil || len(list) != 1 || list[0].ID != "good" {
		t.Errorf("List returned %+v, %v", list, err)
	}
	if _, err := db.Runs().Get(t.Context(), "", "bad"); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Get returned %v", err)
	}
	execute(t, other, `ALTER TABLE boxwright.keys DROP COLUMN hash`)
	if _, err := postgres.Open(server.URL, postgres.Options{}); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Open returned %v", err)
	}
}

// TestAuditIsAppendOnly: not even somebody who writes to the database by mistake changes a record.
func TestAuditIsAppendOnly(t *testing.T) {
	server := postgrestest.Serve(t)
	store := open(t, server, "").Identity()
	if err := store.Append(t.Context(), core.AuditRecord{At: time.Unix(1, 0), Principal: "u-1", Action: "run", Outcome: "ok"}); err != nil {
		t.Fatal(err)
	}
	_, err := raw(t, server).ExecContext(t.Context(), "UPDATE boxwright.audit SET outcome = 'denied'")
	if err == nil || !strings.Contains(err.Error(), "never changed") {
		t.Errorf("the update returned %v", err)
	}
	list, err := store.Records(t.Context(), "", time.Time{}, 9)
	if err != nil || len(list) != 1 || list[0].Outcome != "ok" {
		t.Errorf("records are %+v, %v", list, err)
	}
}

func TestClosed(t *testing.T) {
	server := postgrestest.Serve(t)
	db := filled(t, server)
	wantNone(t, "at the end", map[string]error{"Close": db.Close(), "a second Close": db.Close()})
	for name, err := range calls(t.Context(), db) {
		if core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("%s returned %v", name, err)
		}
	}
}
