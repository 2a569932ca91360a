package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
	"github.com/boxwright/boxwright/core"
)

func someRun(id string) core.Run {
	return core.Run{
		ID: id, Owner: "ann", State: core.RunEnded, Started: time.Unix(1, 0).UTC(), Ended: time.Unix(2, 0).UTC(),
		Record: core.Record{Stdout: core.Output{Head: []byte(strings.Repeat("output ", 500)), Total: 3500}},
	}
}

func someSession(id string) core.Session {
	return core.Session{ID: id, Owner: "ann", Name: "name of " + id, Created: time.Unix(1, 0).UTC()}
}

func older(s *core.Session) error { s.MaxAge++; return nil }

// calls are one of each kind: a read, a list, a write, a step of several statements, and one with a lock.
func calls(ctx context.Context, db *postgres.DB) map[string]error {
	_, get := db.Runs().Get(ctx, "ann", "r")
	_, list := db.Environments().List(ctx)
	return map[string]error{
		"Get": get, "List": list,
		"Append": db.Identity().Append(ctx, core.AuditRecord{At: time.Unix(1, 0), Principal: "ann", Action: "x", Outcome: "ok"}),
		"Update": db.Sessions().Update(ctx, "s", older),
		"Hold":   db.Identity().Hold(ctx, core.Holding{Run: "r", Owner: "ann", Bytes: 1, Since: time.Unix(1, 0)}, 1<<40),
	}
}

// filled has what calls need.
func filled(t *testing.T, server *postgrestest.Server) *postgres.DB {
	t.Helper()
	db := open(t, server, "")
	if err := errors.Join(db.Sessions().Add(t.Context(), someSession("s")), db.Runs().Put(t.Context(), someRun("r"))); err != nil {
		t.Fatal(err)
	}
	return db
}

func wantNone(t *testing.T, when string, faults map[string]error) {
	t.Helper()
	for name, err := range faults {
		if err != nil {
			t.Errorf("%s: %s returned %v", when, name, err)
		}
	}
}

// wantAway: all fail with one sentence and a hint, and tell nothing of where the server is or who we are there.
func wantAway(t *testing.T, server *postgrestest.Server, when string, faults map[string]error) {
	t.Helper()
	for name, err := range faults {
		if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
			t.Errorf("%s: %s returned %v", when, name, err)
			continue
		}
		for _, told := range []string{postgrestest.Password, "secret", server.Dir(), "user="} {
			if strings.Contains(fmt.Sprintf("%+v", err), told) {
				t.Errorf("%s: the error of %s tells %q: %v", when, name, told, err)
			}
		}
	}
}

// TestGoesAwayAndComesBack: the calls in between fail, and the first one after works by itself.
func TestGoesAwayAndComesBack(t *testing.T) {
	server := postgrestest.Serve(t)
	db := filled(t, server)
	wantNone(t, "at first", calls(t.Context(), db))
	for name, end := range map[string]func(){"stopped": server.Stop, "crashed": server.Crash} {
		end()
		wantAway(t, server, name, calls(t.Context(), db))
		_, err := postgres.Open(server.URL, postgres.Options{})
		wantAway(t, server, name, map[string]error{"Open": err})
		server.Start(t)
		wantNone(t, name+" and back", calls(t.Context(), db))
	}
	// All connections are cut, but the server is there: nobody notices.
	wantNone(t, "before the cut", calls(t.Context(), db))
	server.Stop()
	server.Start(t)
	wantNone(t, "after the cut", calls(t.Context(), db))
	if s, err := db.Sessions().Get(t.Context(), "ann", "s"); err != nil || s.MaxAge != 5 {
		t.Errorf("of 5 updates that succeeded %d are kept; %v", s.MaxAge, err)
	}
}

// writer writes until it is told to end, and goes on after what fails.
type writer struct {
	db     *postgres.DB
	id     string
	kept   []string
	counts int // updates of the session that succeeded
	unsure int // and those that may have
	faults []error
}

func (w *writer) write(ctx context.Context, end *atomic.Bool, wrote func()) {
	for i := 0; !end.Load(); i++ {
		id := fmt.Sprintf("%s-%d", w.id, i)
		put := w.db.Runs().Put(ctx, someRun(id))
		if put == nil {
			w.kept = append(w.kept, id)
		}
		update := w.db.Sessions().Update(ctx, "s", older)
		if update == nil {
			w.counts++
		} else {
			w.unsure++
		}
		for _, err := range []error{put, update} {
			if err != nil && core.KindOf(err) != core.ErrUnavailable {
				w.faults = append(w.faults, err)
			}
		}
		wrote()
	}
}

// TestCrashUnderLoad: two servers write through three crashes of the database. What they were told was kept is there,
// whole, and no change is lost or made twice.
func TestCrashUnderLoad(t *testing.T) {
	server := postgrestest.Serve(t)
	dbs := []*postgres.DB{filled(t, server), open(t, server, "")}
	writers := make([]*writer, 6)
	var end atomic.Bool
	var all sync.WaitGroup
	rounds := make(chan struct{}, 1<<20)
	for i := range writers {
		writers[i] = &writer{db: dbs[i%2], id: fmt.Sprint("w", i)}
		all.Go(func() { writers[i].write(t.Context(), &end, func() { rounds <- struct{}{} }) })
	}
	await := func(n int) {
		for range n {
			<-rounds
		}
	}
	for range 3 {
		await(60)
		server.Crash()
		await(30)
		server.Start(t)
	}
	await(60)
	end.Store(true)
	all.Wait()
	counts, unsure := 0, 0
	for _, w := range writers {
		counts, unsure = counts+w.counts, unsure+w.unsure
		if len(w.faults) > 0 || len(w.kept) == 0 {
			t.Errorf("%s kept %d; %v", w.id, len(w.kept), w.faults)
		}
		for _, id := range w.kept {
			if got, err := dbs[0].Runs().Get(t.Context(), "ann", id); err != nil || len(got.Record.Stdout.Head) != 3500 {
				t.Errorf("run %s was kept before a crash; now Get returns %d bytes, %v", id, len(got.Record.Stdout.Head), err)
			}
		}
	}
	if s, err := dbs[0].Sessions().Get(t.Context(), "ann", "s"); err != nil || int(s.MaxAge) < counts || int(s.MaxAge) > counts+unsure {
		t.Errorf("%d updates succeeded and %d failed, and %d are kept; %v", counts, unsure, s.MaxAge, err)
	}
}

// TestSilentServer: one that takes connections and says nothing does not hold anybody.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = postgres.Open("postgres://ann:secret@"+listener.Addr().String()+"/x?sslmode=disable&connect_timeout=1", postgres.Options{})
	if core.KindOf(err) != core.ErrUnavailable || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open returned %v", err)
	}
}

// TestLocked: a call that waits for another's lock ends, and leaves nothing that holds the next one.
func TestLocked(t *testing.T) {
	server := postgrestest.Serve(t)
	patient := filled(t, server)
	db, err := postgres.Open(server.URL, postgres.Options{Limit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := raw(t, server)
	execute(t, other, "BEGIN; UPDATE boxwright.sessions SET lost = lost")
	wantAway(t, server, "locked", map[string]error{"Update": db.Sessions().Update(t.Context(), "s", older), "Remove": db.Sessions().Remove(t.Context(), "s")})
	if _, err := patient.Sessions().Get(t.Context(), "ann", "s"); err != nil {
		t.Errorf("reading does not wait; Get returned %v", err)
	}
	awaitNoWaiters(t, server)
	execute(t, other, "ROLLBACK")
	if err := patient.Sessions().Update(t.Context(), "s", older); err != nil {
		t.Error(err)
	}
}

func TestContextEnds(t *testing.T) {
	server := postgrestest.Serve(t)
	db := filled(t, server)
	other := raw(t, server)
	execute(t, other, "BEGIN; LOCK TABLE boxwright.sessions, boxwright.runs")
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{"Put": db.Runs().Put(soon, someRun("r2")), "Update": db.Sessions().Update(soon, "s", older)} {
		if core.KindOf(err) != core.ErrTimeout {
			t.Errorf("the deadline passed: %s returned %v", name, err)
		}
	}
	awaitNoWaiters(t, server)
	execute(t, other, "ROLLBACK")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Runs().Put(over, someRun("r2")); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("cancelled: Put returned %v", err)
	}
	if _, err := db.Runs().Get(t.Context(), "ann", "r2"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("nothing was kept: Get returned %v", err)
	}
	wantNone(t, "after that", calls(t.Context(), db))
}

// awaitNoWaiters returns when the server has noticed that nobody waits for a lock any more.
func awaitNoWaiters(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	db := raw(t, server)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var waiting int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d still wait", waiting)
		}
	}
}

// TestReadOnly: as a database is whose other one has taken over, until it may be written again.
func TestReadOnly(t *testing.T) {
	server := postgrestest.Serve(t)
	db := filled(t, server)
	other := raw(t, server)
	execute(t, other, "ALTER DATABASE postgres SET default_transaction_read_only = on")
	execute(t, other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'boxwright'")
	faults := calls(t.Context(), db)
	for _, read := range []string{"Get", "List"} {
		if faults[read] != nil {
			t.Errorf("%s returned %v", read, faults[read])
		}
		delete(faults, read)
	}
	wantAway(t, server, "read-only", faults)
	execute(t, other, "ALTER DATABASE postgres SET default_transaction_read_only = off")
	wantNone(t, "writable again", calls(t.Context(), db))
}
