package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

const wantsKeys = "auth: {mode: keys}\n"

// newKey adds a user beside the servers of a state, and makes a key for it.
func (s *state) newKey(t *testing.T, user string) string {
	t.Helper()
	s.command(t, wantsKeys, "users", "add", user)
	return strings.TrimSpace(s.command(t, wantsKeys, "keys", "create", user))
}

// tenant is a user of a server over HTTP, with a key and a connection of their own.
type tenant struct {
	*wire
	name, key string
	calls     int
}

// tenant adds a user, who connects.
func (p *process) tenant(t *testing.T, name string) *tenant {
	t.Helper()
	key := p.newKey(t, name)
	w := p.dial(t, overStreamable)
	w.http.key = key
	w.handshake(t)
	return &tenant{wire: w, name: name, key: key}
}

// use calls a tool.
func (u *tenant) use(t *testing.T, name string, a args) result {
	t.Helper()
	u.calls++
	line, err := json.Marshal(args{"jsonrpc": "2.0", "id": u.calls, "method": "tools/call", "params": args{"name": name, "arguments": a}})
	if err != nil {
		t.Fatal(err)
	}
	u.sendf(t, "%s", line)
	return u.await(t, fmt.Sprint(u.calls)).result(t)
}

// TestTenants: ten who want the same packages at once get them by one installation. What one has, another does not
// find, and nobody finds the key of anybody.
func TestTenants(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	p := launch(t, setup{transport: overStreamable, config: wantsKeys}, nil)
	all := make([]*tenant, 10)
	for i := range all {
		all[i] = p.tenant(t, fmt.Sprintf("agent%d", i))
	}
	var calls sync.WaitGroup
	for _, u := range all {
		calls.Go(func() {
			r := u.use(t, tool, args{"code": "import six; print(six.__name__)", "dependencies": []string{"six"}})
			if r.Stdout != "six\n" {
				t.Errorf("%s got %s", u.name, r.raw)
			}
		})
	}
	calls.Wait()
	if n := strings.Count(p.stderr.String(), "packages were installed"); n != 1 {
		t.Errorf("installed %d times", n)
	}
	testApart(t, all[0], all[1])
	for _, u := range all {
		if strings.Contains(p.stderr.String(), u.key) {
			t.Errorf("the log has the key of %s", u.name)
		}
	}
}

// testApart has one of two users try all that the other one has.
func testApart(t *testing.T, one, other *tenant) {
	t.Helper()
	sandbox := one.use(t, "sandbox_initialize", args{"name": "work"}).SandboxID
	run := one.use(t, tool, args{"code": "print('mine'); open('f', 'w').write('mine')", "background": true}).RunID
	if r := one.use(t, "get_run", args{"run_id": run, "wait_seconds": 60}); sandbox == "" || r.Stdout != "mine\n" {
		t.Fatalf("sandbox %q, run %s", sandbox, r.raw)
	}
	for name, a := range map[string]args{
		"run_python": {"code": "1", "sandbox_id": sandbox}, "sandbox_exec": {"command": "true", "sandbox_id": sandbox},
		"sandbox_inspect": {"sandbox_id": sandbox}, "sandbox_stop": {"sandbox_id": sandbox},
		"list_files": {"sandbox_id": sandbox}, "read_file": {"sandbox_id": sandbox, "path": "f"},
		"get_run": {"run_id": run}, "read_output": {"run_id": run}, "cancel_run": {"run_id": run},
	} {
		if r := other.use(t, name, a); r.Error.Type != "not_found" {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	other.sendf(t, `{"jsonrpc":"2.0","id":"read","method":"resources/read","params":{"uri":"boxwright://runs/%s/files/f"}}`, run)
	if m := other.await(t, `"read"`); m.Error == nil || strings.Contains(string(m.line), "mine") {
		t.Errorf("another's file: %s", m.line)
	}
	for _, list := range []string{"list_sandboxes", "list_runs"} {
		if r := other.use(t, list, args{}); strings.Contains(r.raw, sandbox) || strings.Contains(r.raw, run) {
			t.Errorf("%s: %s", list, r.raw)
		}
	}
	if r := one.use(t, "run_python", args{"code": "40 + 2", "sandbox_id": sandbox}); r.Result != "42" {
		t.Errorf("after all that: %s", r.raw)
	}
}
