package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
)

// TestDatabaseGoesAway: a server whose database goes away says so, loses nothing that it has said it keeps, and goes
// on by itself when the database is back; so does a server that comes after one that was killed.
func TestDatabaseGoesAway(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	database, state := postgrestest.Serve(t), newState(t)
	how := setup{state: state, config: fmt.Sprintf("storage: {database: postgres, postgres: {url: %q}}\n", database.URL)}
	s := serve(t, how)
	sandbox := s.open(t, args{"name": "kept"})
	s.cell(t, sandbox, "x = 41")
	before := s.background(t, tool, program("print('before')"))
	outcome{stdout: "before\n"}.check(t, s.finish(t, before))
	during := s.background(t, tool, program("import time; time.sleep(3); print('during')"))

	database.Crash()
	for _, r := range []result{
		s.use(t, "run_python", args{"sandbox_id": sandbox, "code": "x"}), s.use(t, "get_run", args{"run_id": before}), s.use(t, "sandbox_initialize", args{}),
	} {
		if !r.isError || r.Error.Type != "unavailable" || !strings.Contains(r.Error.Message, "PostgreSQL cannot be reached") || r.Error.Hint == "" || strings.Contains(r.raw, database.Dir()) {
			t.Errorf("without its database: %s", r.raw)
		}
	}
	outcome{stdout: "during\n"}.check(t, s.finish(t, during))
	outcome{stdout: "once\n"}.check(t, s.run(t, program("print('once')")))

	database.Start(t)
	s.cell(t, sandbox, "x += 1; x").shows(t, "42")
	for id, want := range map[string]string{before: "before\n", during: "during\n"} {
		outcome{stdout: want}.check(t, s.finish(t, id))
	}
	s.signal(t, syscall.SIGKILL)
	s.awaitExit(t)
	if strings.Contains(s.stderr.String(), postgrestest.Password) || strings.Contains(s.stderr.String(), database.URL) {
		t.Errorf("the log has the password:\n%s", s.stderr.String())
	}

	s = serve(t, how)
	s.cell(t, "kept", "x").shows(t, "42")
	outcome{stdout: "before\n"}.check(t, s.finish(t, before))
	s.end(t) // before the database does
}
