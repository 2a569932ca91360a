package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// told is what results say of packages.
type told struct {
	Hint          string   `json:"hint"`
	AutoInstalled []string `json:"auto_installed"`
	Status        string   `json:"status"`
	Message       string   `json:"message"`
	InstallLog    string   `json:"install_log"`
	Packages      []string `json:"packages"`
}

func (r result) told(t *testing.T) (said told) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.raw), &said); err != nil {
		t.Fatalf("%v: %s", err, r.raw)
	}
	return said
}

// TestMissingModules: a result says what to ask for, and with auto_install it is asked for.
func TestMissingModules(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{pooled: true})
	code := "import yaml\nprint(yaml.safe_load('a: 1'))"
	r := s.run(t, program(code, "dependencies", []string{"idna"}))
	outcome{status: "failed", exit: 1, stderr: "No module named 'yaml'"}.check(t, r)
	if said := r.told(t); !strings.Contains(said.Hint, `dependencies: ["pyyaml", "idna"]`) || said.AutoInstalled != nil {
		t.Errorf("got %+v", said)
	}
	r = s.run(t, program("open('half', 'w').close()\nimport six\n"+code, "auto_install", true))
	outcome{stdout: "{'a': 1}\n", files: []string{"half"}}.check(t, r)
	if said := r.told(t); !strings.Contains(r.text, "The code lacked six, pyyaml") || !slices.Equal(said.AutoInstalled, []string{"six", "pyyaml"}) || said.Hint != "" {
		t.Errorf("got %+v", said)
	}
	sandbox := s.open(t, args{})
	s.cell(t, sandbox, "x = 7").shows(t, "")
	r = s.cell(t, sandbox, "import yaml\nx += 1\nyaml.safe_load(str(x))", "auto_install", true)
	r.shows(t, "8")
	if said := r.told(t); !slices.Equal(said.AutoInstalled, []string{"pyyaml"}) {
		t.Errorf("in a sandbox: %+v", said)
	}
	r = s.cell(t, sandbox, "import nosuchpackagezz9", "auto_install", true)
	outcome{status: "failed", exit: 1, stderr: "No module named 'nosuchpackagezz9'"}.check(t, r)
	if said := r.told(t); !r.warns("nosuchpackagezz9 could not be installed by itself") || !strings.Contains(said.Hint, "the name on the index may differ") {
		t.Errorf("got %.3000s", r.raw)
	}
	s.cell(t, sandbox, "x").shows(t, "8")
}

// TestAutoInstallForbidden: the operator may want packages to be named.
func TestAutoInstallForbidden(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{config: "dependencies: {auto_install: false}\n"})
	outcome{refused: "denied", says: []string{"installs only packages that are named"}}.check(t, s.run(t, program("import six", "auto_install", true)))
}

// TestPackagesInCode: metadata and lines of a notebook name packages as dependencies does.
func TestPackagesInCode(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	script := "# /// script\n# requires-python = \">=3.9\"\n# dependencies = [\n#   \"six>=1.16\",\n# ]\n# ///\nimport six\nprint(six.__name__)"
	outcome{stdout: "six\n"}.check(t, s.run(t, program(script)))
	r := s.run(t, program(strings.Replace(script, ">=3.9", ">=3.99", 1)))
	outcome{refused: "invalid", says: []string{"the code requires Python >=3.99"}}.check(t, r)
	outcome{refused: "invalid", says: []string{"inline metadata cannot be read"}}.check(t, s.run(t, program("# /// script\n# dependencies = 3\n# ///\n")))
	r = s.run(t, program("%pip install -q six\nimport six\ntext = '''\n%pip install x\n'''\nprint(six.__name__, text.strip())\n1 / 0"))
	outcome{status: "failed", exit: 1, stdout: "six %pip install x\n", stderr: "line 7"}.check(t, r)
	outcome{refused: "invalid", says: []string{"the option -r"}}.check(t, s.run(t, program("!pip install -r x.txt")))

	sandbox := s.open(t, args{})
	s.cell(t, sandbox, "!pip install six").shows(t, "")
	s.cell(t, sandbox, "try:\n  import idna\nexcept ImportError:\n  !pip install idna\n  import idna\nimport six\nidna.__name__, six.__name__").shows(t, "('idna', 'six')")
	outcome{refused: "invalid"}.check(t, s.cell(t, sandbox, strings.Replace(script, ">=3.9", "<3", 1)))
	r = s.cell(t, sandbox, script)
	outcome{stdout: "six\n"}.check(t, r)
}

// TestSearchPackages asks an index on this machine.
func TestSearchPackages(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "reader" || password != "hunter2hunter2":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/root/pypi/scikit-learn/json":
			fmt.Fprint(w, `{"info": {"name": "scikit-learn", "summary": "Machine learning"}, "releases": {"1.4": [{"requires_python": ">=3.9"}], "1.10": [{"requires_python": ">=3.10"}]}}`)
		case r.URL.Path == "/root/simple/only-simple/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="x">only_simple-2.0-py3-none-any.whl</a>`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer index.Close()
	at := func(credentials string) string {
		return fmt.Sprintf("dependencies: {index_url: %q}\n", strings.Replace(index.URL, "://", "://"+credentials, 1)+"/root/simple")
	}
	s := serve(t, setup{config: at("reader:hunter2hunter2@")})
	search := func(s *server, query string) result { return s.use(t, "search_pypi_packages", args{"query": query}) }
	for query, want := range map[string]string{
		"sklearn":     "- scikit-learn 1.10: Machine learning (Python >=3.10); before: 1.4",
		"only_simple": "- only-simple 2.0",
	} {
		if r := search(s, query); r.isError || r.text != want {
			t.Errorf("%s: got %q", query, r.text)
		}
	}
	outcome{refused: "not_found", says: []string{"no package"}}.check(t, search(s, "nothing"))
	refused := serve(t, setup{config: at("reader:wr0ngwr0ng@")})
	r := search(refused, "sklearn")
	outcome{refused: "unavailable", says: []string{"refused the credentials"}}.check(t, r)
	index.Close()
	r = search(s, "sklearn")
	outcome{refused: "unavailable", says: []string{"cannot be reached"}}.check(t, r)
	if all := r.raw + s.stderr.String() + refused.stderr.String(); strings.Contains(all, "hunter2") || strings.Contains(all, "wr0ng") {
		t.Errorf("a credential is in %s", all)
	}
}

// awaitInstalled asks until an installation is over.
func (s *server) awaitInstalled(t *testing.T, sandbox, name string) (said told) {
	t.Helper()
	eventually(t, 2*time.Minute, func() (bool, string) {
		r := s.use(t, "check_package_installation_status", args{"sandbox_id": sandbox, "package_name": name})
		if r.isError {
			t.Fatalf("no status: %s", r.raw)
		}
		said = r.told(t)
		return said.Status != "installing", r.raw
	})
	return said
}

// TestInstallIntoSandbox: packages come into a sandbox that lives, and are listed.
func TestInstallIntoSandbox(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{})
	sandbox := s.open(t, args{"name": "mine"})
	s.cell(t, sandbox, "x = 7").shows(t, "")
	if r := s.use(t, "install_package_in_sandbox", args{"sandbox_id": "mine", "package_name": []string{"six", "idna"}}); r.isError {
		t.Fatalf("got %s", r.raw)
	}
	if said := s.awaitInstalled(t, sandbox, "idna"); said.Status != "installed" || !slices.Equal(said.Packages, []string{"idna", "six"}) {
		t.Errorf("got %+v", said)
	}
	s.cell(t, sandbox, "import idna, six; x, six.__name__").shows(t, "(7, 'six')")
	if said := s.use(t, "sandbox_inspect", args{"sandbox_id": "mine"}).told(t); !slices.Equal(said.Packages, []string{"idna", "six"}) {
		t.Errorf("it has %q", said.Packages)
	}
	if r := s.use(t, "list_sandboxes", args{}); !strings.Contains(r.raw, `"packages":["idna","six"]`) {
		t.Errorf("listed as %s", r.raw)
	}
	s.use(t, "install_package_in_sandbox", args{"sandbox_id": sandbox, "package_name": "no-such-pkg-zz9"})
	if said := s.awaitInstalled(t, sandbox, "no-such-pkg-zz9"); said.Status != "failed" || !strings.Contains(said.Message, "no-such-pkg-zz9") {
		t.Errorf("got %+v", said)
	}
	r := s.use(t, "check_package_installation_status", args{"sandbox_id": sandbox, "package_name": "pandas"})
	outcome{refused: "not_found"}.check(t, r)
	r = s.use(t, "install_package_in_sandbox", args{"sandbox_id": "other", "package_name": "six"})
	outcome{refused: "not_found"}.check(t, r)
}

// TestInstallIntoSandboxOutlivesTheServer: the next server goes on with it.
func TestInstallIntoSandboxOutlivesTheServer(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	state := newState(t)
	first := serve(t, setup{state: state})
	sandbox := first.open(t, args{})
	c := first.sendTo(t, "install_package_in_sandbox", args{"sandbox_id": sandbox, "package_name": []string{"numpy", "pandas"}}, nil)
	first.awaitBox(t, "install")
	first.signal(t, syscall.SIGKILL)
	first.awaitExit(t)
	<-c.done
	second := serve(t, setup{state: state})
	if said := second.awaitInstalled(t, sandbox, "pandas"); said.Status != "installed" {
		t.Errorf("got %+v", said)
	}
	second.cell(t, sandbox, "import pandas; pandas.DataFrame({'a': [1]}).shape", "timeout_seconds", 120).shows(t, "(1, 1)")
}

// TestSearchOfTheDefaultIndex: nobody has set an index, so the package manager of a box is asked.
func TestSearchOfTheDefaultIndex(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	s := serve(t, setup{})
	if r := s.use(t, "search_pypi_packages", args{"query": "six"}); r.isError || !strings.HasPrefix(r.text, "- six 1.") {
		t.Errorf("got %.2000s", r.raw)
	}
	outcome{refused: "not_found", says: []string{"no package"}}.check(t, s.use(t, "search_pypi_packages", args{"query": "no-such-pkg-zz9"}))
}
