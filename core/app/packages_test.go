package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// lacking makes programs fail for want of these modules, one after the other, and then succeed. The specs that the
// agent got are returned.
func (w *world) lacking(modules ...string) func() []core.RunSpec {
	var mu sync.Mutex
	var seen []core.RunSpec
	w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, spec)
		if len(seen) > len(modules) {
			return core.Exit{Stdout: core.Output{Head: []byte("done\n"), Total: 5}}, nil
		}
		text := fmt.Sprintf("Traceback (most recent call last):\nModuleNotFoundError: No module named '%s'\n", modules[len(seen)-1])
		return core.Exit{Code: 1, Stderr: core.Output{Head: []byte(text), Total: int64(len(text))}}, nil
	}
	return func() []core.RunSpec {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func autoSettings() app.Settings {
	s := sessionSettings()
	s.AutoInstall = true
	return s
}

func (w *world) installed() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.index {
		if !e.IsRemains() {
			names = append(names, strings.Join(e.Names, " "))
		}
	}
	slices.Sort(names)
	return names
}

func TestMissingModuleIsTold(t *testing.T) {
	w := newWorld()
	w.lacking("cv2")
	r := request("import cv2")
	r.Dependencies = []string{"six"}
	record, err := w.service(t, autoSettings()).RunOnce(t.Context(), r, nil)
	if err != nil || record.Status != core.StatusFailed || !strings.Contains(record.Hint, `dependencies: ["opencv-python-headless", "six"]`) || record.AutoInstalled != nil {
		t.Errorf("got %q, %v, %v", record.Hint, record.AutoInstalled, err)
	}
	w = newWorld()
	w.lacking("helper")
	r = request("import helper")
	r.Files = []core.Input{{Name: "src/helper.py"}}
	if record, err = w.service(t, autoSettings()).RunOnce(t.Context(), r, nil); err != nil || !strings.Contains(record.Hint, "no package is known") {
		t.Errorf("a file of its own: %q, %v", record.Hint, err)
	}
	w = newWorld()
	w.lacking("yaml")
	s := autoSettings()
	s.Dependencies = false
	if record, err = w.service(t, s).RunOnce(t.Context(), request("import yaml"), nil); err != nil || !strings.Contains(record.Hint, "installs no packages") {
		t.Errorf("without dependencies: %q, %v", record.Hint, err)
	}
}

func TestAutoInstallRunsAgain(t *testing.T) {
	w := newWorld()
	specs := w.lacking("cv2", "yaml")
	r := request("import cv2, yaml")
	r.AutoInstall, r.Dependencies = true, []string{"six"}
	service := w.service(t, autoSettings())
	record, err := service.RunOnce(t.Context(), r, nil)
	if err != nil || record.Status != core.StatusOK || record.Hint != "" || !slices.Equal(record.AutoInstalled, []string{"opencv-python-headless", "pyyaml"}) {
		t.Fatalf("got %+v, %v", record, err)
	}
	if got := w.installed(); !slices.Equal(got, []string{"opencv-python-headless pyyaml six", "opencv-python-headless six", "six"}) {
		t.Errorf("installed %q", got)
	}
	if n := len(specs()); n != 3 {
		t.Errorf("it ran %d times", n)
	}
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, _ := w.counts(); boxes != 0 {
		t.Errorf("%d boxes are left", boxes)
	}
}

func TestAutoInstallEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		lacks []string
		runs  int
		hint  string
	}{
		"after three packages":    {[]string{"aaa", "bbb", "ccc", "ddd"}, 4, `["ddd", "aaa", "bbb", "ccc"]`},
		"at a module of its own":  {[]string{"utils"}, 1, "no package is known"},
		"when it does not help":   {[]string{"aaa", "aaa"}, 2, "is installed but has no module"},
		"when nothing is missing": {nil, 1, ""},
	} {
		for _, inSession := range []bool{false, true} {
			w := newWorld()
			specs := w.lacking(tt.lacks...)
			r := cell("x")
			r.AutoInstall = true
			service := w.service(t, autoSettings())
			var record core.Record
			var err error
			if inSession {
				record, err = service.RunInSession(t.Context(), "", r, nil)
			} else {
				record, err = service.RunOnce(t.Context(), r, nil)
			}
			if err != nil || !strings.Contains(record.Hint, tt.hint) || (tt.hint == "") != (record.Hint == "") || len(specs()) != tt.runs {
				t.Errorf("%s, in a session %v: ran %d times, hint %q, %v", name, inSession, len(specs()), record.Hint, err)
			}
		}
	}
}

func TestAutoInstallThatFails(t *testing.T) {
	w := newWorld()
	specs := w.lacking("nosuch")
	w.fail["install"] = core.Errorf(core.ErrDependency, "a package of this name does not exist").WithHint("check the spelling")
	r := request("import nosuch")
	r.AutoInstall = true
	record, err := w.service(t, autoSettings()).RunOnce(t.Context(), r, nil)
	if err != nil || record.ExitCode != 1 || len(specs()) != 1 || record.AutoInstalled != nil || record.Hint != "check the spelling" ||
		!strings.Contains(strings.Join(record.Warnings, "\n"), "nosuch could not be installed by itself: a package of this name does not exist") {
		t.Errorf("got %+v, %v", record, err)
	}
}

// In a session the program runs again in the same box, under another id and with one more folder of packages.
func TestAutoInstallInSession(t *testing.T) {
	w := newWorld()
	specs := w.lacking("yaml")
	service := w.service(t, autoSettings())
	r := cell("import yaml")
	r.AutoInstall, r.Files = true, []core.Input{{Name: "in.txt", Content: []byte("1")}}
	record, err := service.RunInSession(t.Context(), "", r, nil)
	if err != nil || record.Status != core.StatusOK || !slices.Equal(record.AutoInstalled, []string{"pyyaml"}) {
		t.Fatalf("got %+v, %v", record, err)
	}
	all := specs()
	if len(all) != 2 || all[0].ID == all[1].ID || len(all[0].PythonPath) != 0 || len(all[1].PythonPath) != 1 {
		t.Errorf("the agent got %+v", all)
	}
	if record.RunID != all[0].ID {
		t.Errorf("the run is %s, and began as %s", record.RunID, all[0].ID)
	}
	list, err := service.Sessions(t.Context(), "local")
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Requirements, []string{"pyyaml"}) {
		t.Errorf("the session has %+v, %v", list, err)
	}
}

func TestAutoInstallIsThePolicys(t *testing.T) {
	r := request("x")
	r.AutoInstall = true
	if _, err := newWorld().service(t, sessionSettings()).RunOnce(t.Context(), r, nil); !errors.Is(err, core.ErrDenied) {
		t.Errorf("forbidden: %v", err)
	}
	r.OpenStdin, r.Background = true, true
	if _, err := newWorld().service(t, autoSettings()).RunOnce(t.Context(), r, nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("with open input: %v", err)
	}
}

func TestPackagesThatTheCodeNames(t *testing.T) {
	const block = "# /// script\n# dependencies = [\"six\", \"idna>=3\"]\n# ///\n"
	for name, tt := range map[string]struct {
		code, language string
		named          []string
		runs, installs string
	}{
		"inline metadata":         {block + "1", "", nil, block + "1", "idna>=3 six"},
		"with the argument's":     {block + "1", "Python", []string{"idna", "six<2"}, block + "1", "idna>=3 six<2"},
		"lines of a notebook":     {"%pip install -q six\n1", "python", []string{"attrs"}, "\n1", "attrs six"},
		"both":                    {block + "!pip install idna\n1", "", nil, block + "\n1", "idna>=3 six"},
		"a line alone":            {"%pip install six", "", nil, "pass", "six"},
		"not in another language": {"%pip install six", "bash", nil, "%pip install six", ""},
	} {
		for _, inSession := range []bool{false, true} {
			w := newWorld()
			specs := w.lacking()
			service := w.service(t, autoSettings())
			r := cell(tt.code)
			r.Dependencies, r.Language = tt.named, tt.language
			run := func() (core.Record, error) { return service.RunOnce(t.Context(), r, nil) }
			if inSession {
				run = func() (core.Record, error) { return service.RunInSession(t.Context(), "", r, nil) }
			}
			_, err := run()
			if got := strings.Join(w.installed(), ", "); err != nil || string(specs()[0].Code) != tt.runs || got != tt.installs {
				t.Errorf("%s: ran %q, installed %q, %v", name, specs()[0].Code, got, err)
			}
		}
	}
	for name, code := range map[string]string{
		"metadata":    "# /// script\n# dependencies = 3\n# ///\n",
		"requirement": "# /// script\n# dependencies = [\"-r x\"]\n# ///\n",
		"line":        "%pip install -r x.txt",
	} {
		if _, err := newWorld().service(t, autoSettings()).RunOnce(t.Context(), request(code), nil); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestVersionOfPythonThatTheCodeNeeds(t *testing.T) {
	code := "# /// script\n# requires-python = \">=3.12\"\n# ///\nprint(1)"
	for version, want := range map[string]core.Kind{"3.12.1\n": "", "3.11.9\n": core.ErrInvalid, "no version": ""} {
		for _, inSession := range []bool{false, true} {
			w := newWorld()
			ran := false
			w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
				if len(spec.Argv) > 0 {
					if spec.Keep != inSession {
						t.Errorf("the look at the version ends what runs: %v", !spec.Keep)
					}
					return core.Exit{Stdout: core.Output{Head: []byte(version)}}, nil
				}
				ran = true
				return core.Exit{}, nil
			}
			service := w.service(t, autoSettings())
			var err error
			if inSession {
				_, err = service.RunInSession(t.Context(), "", cell(code), nil)
			} else {
				_, err = service.RunOnce(t.Context(), request(code), nil)
			}
			if core.KindOf(err) != want || ran != (want == "") {
				t.Errorf("%q: ran %v, %v", version, ran, err)
			}
		}
	}
}

func TestSearchPackages(t *testing.T) {
	w := newWorld()
	w.catalog = map[string]core.Package{}
	for _, name := range []string{"pandas", "scikit-learn", "opencv-python-headless", "image", "tools"} {
		w.catalog[name] = core.Package{Name: name}
	}
	service := w.service(t, settings())
	for query, want := range map[string]string{
		"pandas": "pandas", "Pandas>=2": "pandas", " scikit learn ": "scikit-learn", "sklearn": "scikit-learn", "cv2": "opencv-python-headless",
		"tools for an image": "tools image", "nothing": "", "nothing at all": "",
	} {
		found, err := service.SearchPackages(t.Context(), "ann", query)
		var names []string
		for _, p := range found {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want || (want == "") != errors.Is(err, core.ErrNotFound) || want != "" && err != nil {
			t.Errorf("%q: got %q, %v", query, got, err)
		}
	}
	for _, query := range []string{"", " ", "é", "-r", strings.Repeat("x", 201), "../x"} {
		if _, err := service.SearchPackages(t.Context(), "ann", query); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: got %v", query, err)
		}
	}
	s := settings()
	s.Dependencies = false
	if _, err := w.service(t, s).SearchPackages(t.Context(), "ann", "pandas"); !errors.Is(err, core.ErrDenied) {
		t.Errorf("without dependencies: %v", err)
	}
}

// A search is its owner's call, and over before the service is.
func TestSearchIsACall(t *testing.T) {
	w, s := newWorld(), settings()
	w.catalog = map[string]core.Package{"six": {Name: "six"}}
	s.Quota.Calls = 1
	tenants := w.tenants(t, s, core.AuditCodeHash)
	for range 2 {
		if _, err := tenants.SearchPackages(as(t.Context(), "ann"), "bob", "six"); core.KindOf(err) != core.ErrInternal {
			t.Errorf("for another: %v", err)
		}
	}
	if _, err := tenants.SearchPackages(as(t.Context(), "ann"), "ann", "six"); err != nil {
		t.Error(err)
	}
	if _, err := tenants.SearchPackages(as(t.Context(), "ann"), "ann", "six"); core.KindOf(err) != core.ErrExhausted {
		t.Errorf("a second: %v", err)
	}
}

func TestCloseEndsASearch(t *testing.T) {
	w := newWorld()
	looks, ended := make(chan struct{}), make(chan error, 1)
	w.looking = func(ctx context.Context) error {
		close(looks)
		<-ctx.Done()
		return core.Errorf(core.ErrCancelled, "it was told to end")
	}
	s := w.service(t, settings())
	go func() {
		_, err := s.SearchPackages(context.WithoutCancel(t.Context()), "ann", "six")
		ended <- err
	}()
	<-looks
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; core.KindOf(err) != core.ErrCancelled {
		t.Errorf("it ended with %v", err)
	}
}

func openSession(t *testing.T, s *app.Service) core.Session {
	t.Helper()
	made, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local", Name: "mine"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// settles waits until an installation is over.
func settles(t *testing.T, s *app.Service, name string) core.PackageInstall {
	t.Helper()
	for range 1000 {
		i, err := s.InstallStatus(t.Context(), "local", "mine", name)
		if err != nil {
			t.Fatal(err)
		}
		if i.State != core.InstallUnderWay {
			return i
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s is still being installed", name)
	return core.PackageInstall{}
}

func TestInstallIntoSession(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	openSession(t, s)
	got, err := s.BeginInstall(t.Context(), "local", "mine", []string{"Six", "idna>=3"}, time.Minute)
	if err != nil || got.State != core.InstallDone || !slices.Equal(got.Packages, []string{"idna>=3", "six"}) || got.Ended.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, name := range []string{"six", "SIX", "idna", "idna>=3"} {
		if i, err := s.InstallStatus(t.Context(), "local", "mine", name); err != nil || i.State != core.InstallDone {
			t.Errorf("%s: got %+v, %v", name, i, err)
		}
	}
	for _, name := range []string{"pandas", "idna>=4", "", "-r"} {
		if i, err := s.InstallStatus(t.Context(), "local", "mine", name); core.KindOf(err) != core.ErrNotFound && core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%q: got %+v, %v", name, i, err)
		}
	}
	if _, err := s.InstallStatus(t.Context(), "other", "mine", "six"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	for _, wrong := range [][]string{nil, {""}, {"-r x"}} {
		if _, err := s.BeginInstall(t.Context(), "local", "mine", wrong, time.Minute); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
	if before := w.installs.Load(); before != 1 {
		t.Errorf("installed %d times", before)
	}
	if again, err := s.BeginInstall(t.Context(), "local", "mine", []string{"six"}, time.Minute); err != nil || again.State != core.InstallDone || w.installs.Load() != 1 {
		t.Errorf("what is there already: %+v, %v", again, err)
	}
}

func TestInstallThatTakesLong(t *testing.T) {
	w := newWorld()
	proceed := make(chan error)
	w.install = func(ctx context.Context) error {
		select {
		case err := <-proceed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s := w.service(t, sessionSettings())
	openSession(t, s)
	got, err := s.BeginInstall(t.Context(), "local", "mine", []string{"slow"}, 20*time.Millisecond)
	if err != nil || got.State != core.InstallUnderWay {
		t.Fatalf("got %+v, %v", got, err)
	}
	proceed <- core.Errorf(core.ErrDependency, "it does not exist").WithHint("check the spelling")
	if got = settles(t, s, "slow"); got.State != core.InstallFailed || got.Failure.Message != "it does not exist" || got.Failure.Hint != "check the spelling" || !strings.Contains(got.Log, "installing") {
		t.Errorf("got %+v", got)
	}
	if _, err = s.BeginInstall(t.Context(), "local", "mine", []string{"slow"}, 0); err != nil {
		t.Fatal(err)
	}
	proceed <- nil
	if got = settles(t, s, "slow"); got.State != core.InstallDone || got.Failure.Kind != "" {
		t.Errorf("the second time: %+v", got)
	}
}

// An installation that a server left behind goes on in the next one, by itself or when somebody asks for it.
func TestInstallOutlivesItsServer(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		outlivesServer(t, sweep)
	}
}

func outlivesServer(t *testing.T, sweep bool) {
	t.Helper()
	w := newWorld()
	s := w.service(t, sessionSettings())
	made := openSession(t, s)
	left := core.PackageInstall{Packages: []string{"six"}, State: core.InstallUnderWay, Server: "gone", Log: "downloading"}
	if err := w.sessions.Update(t.Context(), made.ID, func(kept *core.Session) error {
		kept.Installs = []core.PackageInstall{left}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.alive["gone"] = true
	if got, err := s.InstallStatus(t.Context(), "local", "mine", "six"); err != nil || got.State != core.InstallUnderWay || got.Log != "downloading" || w.installs.Load() != 0 {
		t.Errorf("another server is at it: %+v, %v", got, err)
	}
	w.alive["gone"] = false
	if sweep {
		if err := s.SweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept, err := w.sessions.Get(t.Context(), "local", "mine"); err != nil || kept.Installs[0].Server != "me" {
			t.Errorf("the sweep did not go on with it: %+v, %v", kept.Installs, err)
		}
	}
	if got := settles(t, s, "six"); got.State != core.InstallDone || got.Server != "me" || w.installs.Load() != 1 {
		t.Errorf("got %+v after %d installs", got, w.installs.Load())
	}
}

// TestSearchByABox: where only package managers know the index, they are asked, in one box with network and nothing
// else.
func TestSearchByABox(t *testing.T) {
	w := newWorld()
	w.fail["default index"] = core.Errorf(core.ErrUnsupported, "no index is known here")
	service := w.service(t, settings())
	for query, want := range map[string]string{"pandas": "pandas 3.0", "fast pandas frames": "pandas 3.0", "nothing here": ""} {
		before := len(w.madeFor(core.PurposeInstall))
		found, err := service.SearchPackages(t.Context(), "ann", query)
		made := w.madeFor(core.PurposeInstall)[before:]
		if len(made) != 1 || made[0].Network != core.NetworkFull || made[0].Labels.Tenant != "ann" || len(made[0].Mounts) > 0 {
			t.Errorf("%s: the boxes are %+v", query, made)
		}
		switch {
		case want == "" && errors.Is(err, core.ErrNotFound):
		case err != nil || len(found) != 1 || found[0].Name+" "+found[0].Versions[0] != want:
			t.Errorf("%s: got %+v, %v", query, found, err)
		}
	}
}
