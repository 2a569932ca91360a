package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// installed is how often the server has installed packages.
func (s *server) installed() int { return strings.Count(s.stderr.String(), "packages were installed") }

// TestZone: what is installed once is there for every box that waits already, also after a restart. Programs can
// neither change it nor see what else there is.
func TestZone(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	state := newState(t)
	s, _ := pooling(t, state)
	code := "import os, six; print(os.path.dirname(six.__file__))"
	first := s.run(t, program(code, "dependencies", []string{"six"}))
	outcome{any: true}.check(t, first)
	folder := strings.TrimSpace(first.Stdout)
	if name, ok := strings.CutPrefix(folder, "/opt/boxwright/envs/by-name/"); !ok || len(name) != 26 {
		t.Fatalf("it is in %q", folder)
	}
	s.awaitWaiting(t)
	for range 2 {
		before := len(s.taken())
		outcome{stdout: folder + "\n"}.check(t, s.run(t, program(code, "dependencies", []string{"six"})))
		if taken := s.taken()[before:]; len(taken) != 1 {
			t.Errorf("the same packages took the waiting boxes %q", taken)
		}
		s.awaitWaiting(t)
	}
	outcome{stdout: strings.Repeat("refused\n", 9) + "there\n"}.check(t, s.run(t, program(fmt.Sprintf(zoneTricks, folder))))
	if n := s.installed(); n != 1 {
		t.Errorf("installed %d times", n)
	}
	s.end(t)
	again := serve(t, setup{state: state})
	outcome{stdout: folder + "\n"}.check(t, again.run(t, program(code, "dependencies", []string{"six"})))
	if n := again.installed(); n != 0 {
		t.Errorf("installed %d times after a restart", n)
	}
}

// zoneTricks try to see and to change what a zone holds. The folder that is known can be entered: it is of the same
// trust.
const zoneTricks = `import os, subprocess
folder = %q
zone = os.path.dirname(folder)
def refused(trick):
    try: print('done:', trick())
    except OSError: print('refused')
refused(lambda: os.listdir(zone))
refused(lambda: os.rename(zone, zone + 'x'))
refused(lambda: os.open(zone, os.O_RDONLY))
refused(lambda: os.chmod(zone, 0o755))
refused(lambda: open(zone + '/x', 'w'))
refused(lambda: os.mkdir(folder + '/x'))
refused(lambda: open(folder + '/six.py', 'a'))
refused(lambda: os.chmod(folder + '/six.py', 0o777))
refused(lambda: os.rename(folder, folder + 'x'))
print('there' if os.path.exists(folder + '/six.py') and not subprocess.run(['ls', zone], capture_output=True).stdout else 'seen')`

// TestPackagesComeLater: a sandbox that lives gets packages and keeps its variables; what comes later is found
// first, and what that does not reach is told.
func TestPackagesComeLater(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{})
	sandbox := s.open(t, args{})
	r := s.cell(t, sandbox, "x = 7\nimport idna")
	outcome{status: "failed", exit: 1, stderr: "No module named 'idna'"}.check(t, r)
	with := func(packages ...string) []any { return []any{"dependencies", packages} }
	s.cell(t, sandbox, "import idna; x, idna.__version__", with("idna==3.10")...).shows(t, "(7, '3.10')")
	s.cell(t, sandbox, "import six; six.__name__, idna.__version__", with("six", "idna==3.10")...).shows(t, "('six', '3.10')")
	r = s.cell(t, sandbox, "idna.__version__", with("idna==3.9")...)
	r.shows(t, "'3.10'")
	if !r.warns("idna 3.10 is imported already: the 3.9 that was added is not used by code that runs in this interpreter") {
		t.Errorf("the warnings are %q", r.Warnings)
	}
	child := "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import idna; print(idna.__version__)'], capture_output=True, text=True).stdout"
	r = s.cell(t, sandbox, child)
	r.shows(t, `'3.9\n'`)
	if len(r.Warnings) > 0 {
		t.Errorf("the warnings are told again: %q", r.Warnings)
	}
	r = s.use(t, "sandbox_exec", args{"sandbox_id": sandbox, "command": "python3 -c 'import idna, six; print(idna.__version__)'"})
	outcome{stdout: "3.9\n"}.check(t, r)
	if n := s.installed(); n != 3 {
		t.Errorf("installed %d times", n)
	}
}
