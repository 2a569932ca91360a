package app_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// asking is a request with packages.
func asking(packages ...string) core.Request {
	r := request("x")
	r.Dependencies = packages
	return r
}

// indexed are the environments in the index, and what it has besides.
func (w *world) indexed() (environments, remains []core.Environment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.index {
		if e.IsRemains() {
			remains = append(remains, e)
		} else {
			environments = append(environments, e)
		}
	}
	return environments, remains
}

// made are the boxes that were made for a purpose.
func (w *world) madeFor(purpose core.Purpose) []core.BoxSpec {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.specs), func(s core.BoxSpec) bool { return s.Labels.Purpose != purpose })
}

// TestWhoSeesWhat: only the courier writes to the zone, and it has nothing of the network; the installer does not
// know it; the code's box has it read-only, with packages or without.
func TestWhoSeesWhat(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	var paths [][]string
	w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
		paths = append(paths, spec.PythonPath)
		return core.Exit{}, nil
	}
	for _, r := range []core.Request{asking("six"), asking("six"), asking("attrs"), request("x")} {
		if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	name := path.Base(paths[0][0])
	if path.Dir(paths[0][0]) != core.GuestEnvironments+"/"+core.ZoneFolder || len(name) != 26 || paths[1][0] != paths[0][0] || paths[2][0] == paths[0][0] || paths[3] != nil {
		t.Errorf("the paths are %q", paths)
	}
	zones, folders := w.zones()
	if len(zones) != 1 || len(folders) != 2 || !slices.Contains(folders, zones[0]+"/"+name) {
		t.Fatalf("the zones are %q with %q", zones, folders)
	}
	zone := core.Mount{Volume: zones[0], Path: core.GuestEnvironments}
	for _, spec := range w.madeFor(core.PurposeRun) {
		if spec.Network != core.NetworkNone || len(spec.Mounts) != 1 || spec.Mounts[0] != zone {
			t.Errorf("the code's box is %+v", spec)
		}
	}
	installers, couriers := w.madeFor(core.PurposeInstall), w.madeFor(core.PurposeKeep)
	if len(installers) != 2 || len(couriers) != 2 {
		t.Fatalf("%d installers and %d couriers", len(installers), len(couriers))
	}
	private := installers[0].Mounts[0]
	if private.Path != core.GuestEnvironment || !private.Writable || slices.ContainsFunc(installers[0].Mounts, func(m core.Mount) bool { return m.Volume == zone.Volume }) {
		t.Errorf("the installer's box has %+v", installers[0].Mounts)
	}
	zone.Writable, private.Writable = true, false
	if c := couriers[0]; c.Network != core.NetworkNone || !slices.Equal(c.Mounts, []core.Mount{private, zone}) || len(c.Preload) > 0 {
		t.Errorf("the courier's box is %+v", c)
	}
}

func TestInstallIsSharedAndRemembered(t *testing.T) {
	w := newWorld()
	service := w.service(t, settings())
	gate := make(chan struct{})
	w.install = func(context.Context) error { <-gate; return nil }
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			r := asking("six")
			r.Tenant = fmt.Sprint(n)
			if _, err := service.RunOnce(t.Context(), r, func(core.Progress) {}); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	close(gate)
	all.Wait()
	record, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil) // another server
	if err != nil || record.Install != "" {
		t.Errorf("%q, %v", record.Install, err)
	}
	if n := w.installs.Load(); n != 1 {
		t.Errorf("installed %d times, want once", n)
	}
	environments, remains := w.indexed()
	if len(environments) != 1 || len(remains) > 0 {
		t.Fatalf("the index has %+v and %+v", environments, remains)
	}
	e := environments[0]
	if e.Backend != "fake" || e.Size != 100 || e.Lock != "six==1.17.0" || e.Language != core.LanguagePython || !slices.Equal(e.Names, []string{"six"}) || !e.Used.Equal(w.now) {
		t.Errorf("it is %+v", e)
	}
}

// TestOfflineInstaller: a box that needs no network has none.
func TestOfflineInstaller(t *testing.T) {
	for _, tt := range []struct {
		offline error
		want    core.Network
	}{{nil, core.NetworkFull}, {errors.New("yes"), core.NetworkNone}} {
		w := newWorld()
		w.fail["offline"] = tt.offline
		if _, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(w.specs, func(spec core.BoxSpec) bool { return spec.Labels.Purpose == core.PurposeInstall })
		if i < 0 || w.specs[i].Network != tt.want {
			t.Errorf("the installer box of %v is %+v", tt.offline, w.specs)
		}
	}
}

// TestPrivateIndex: what one tenant installed from where credentials are needed is not in another's boxes.
func TestPrivateIndex(t *testing.T) {
	w := newWorld()
	w.fail["private"] = errors.New("yes")
	service := w.service(t, settings())
	for _, tenant := range []string{"a", "b", "a"} {
		r := asking("six")
		r.Tenant = tenant
		if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	zones, folders := w.zones()
	if len(zones) != 2 || len(folders) != 2 || w.installs.Load() != 2 {
		t.Errorf("the zones are %q with %q, installed %d times", zones, folders, w.installs.Load())
	}
	seen := map[string]string{} // tenant, by zone
	for _, spec := range w.madeFor(core.PurposeRun) {
		zone := spec.Mounts[0].Volume
		if other, known := seen[zone]; known && other != spec.Labels.Tenant {
			t.Errorf("%s and %s have the zone %s", other, spec.Labels.Tenant, zone)
		}
		seen[zone] = spec.Labels.Tenant
	}
}

// TestLostPackages: what an operator or a crash took away is installed again, by the run that needs it.
func TestLostPackages(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"the zone":   func(w *world) { clear(w.volumes) },
		"the folder": func(w *world) { clear(w.folders) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			service := w.service(t, settings())
			for range 2 {
				if _, err := service.RunOnce(t.Context(), asking("six"), nil); err != nil {
					t.Fatal(err)
				}
				w.mu.Lock()
				lose(w)
				w.mu.Unlock()
			}
			if n := w.installs.Load(); n != 2 {
				t.Errorf("installed %d times, want twice", n)
			}
			if err := service.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if boxes, _ := w.counts(); boxes != 0 {
				t.Errorf("%d boxes are left", boxes)
			}
		})
	}
}

// TestRefusedPackages: what the courier refuses is an error of the packages, and is never used. One that gives no
// answer is tried once more.
func TestRefusedPackages(t *testing.T) {
	for step, want := range map[string]core.Kind{"courier": core.ErrDependency, "answer": core.ErrUnavailable} {
		couriers := map[string]int{"courier": 1, "answer": 2}[step]
		w := newWorld()
		w.fail[step] = core.Errorf(core.ErrDependency, "they hold a device")
		_, err := w.service(t, settings()).RunOnce(t.Context(), asking("six"), nil)
		if core.KindOf(err) != want {
			t.Errorf("%s: got %v", step, err)
		}
		if environments, remains := w.indexed(); len(environments) > 0 || len(remains) != couriers || len(w.madeFor(core.PurposeRun)) > 0 {
			t.Errorf("%s: the index has %+v and %+v", step, environments, remains)
		}
	}
}

// TestPackagesComeToASession: the newest first, all that is asked for as one environment; what is there already
// needs nothing.
func TestPackagesComeToASession(t *testing.T) {
	w := newWorld()
	service := w.service(t, sessionSettings())
	session, err := service.OpenSession(t.Context(), core.SessionRequest{Tenant: "t", Name: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last []string
	w.run = func(_ context.Context, spec core.RunSpec) (core.Exit, error) {
		last = spec.PythonPath
		return core.Exit{}, nil
	}
	run := func(packages ...string) []string {
		r := asking(packages...)
		r.Tenant = "t"
		if _, err := service.RunInSession(t.Context(), "s", r, nil); err != nil {
			t.Fatal(err)
		}
		return last
	}
	if got := run(); len(got) > 0 {
		t.Errorf("at first the path is %q", got)
	}
	first := run("six")
	second := run("attrs", "six")
	if len(first) != 1 || len(second) != 2 || second[1] != first[0] {
		t.Errorf("the paths are %q and %q", first, second)
	}
	if got := run("six"); !slices.Equal(got, second) {
		t.Errorf("with what is there the path is %q", got)
	}
	changed, err := service.InstallInSession(t.Context(), "t", session.ID, []string{"idna"}, nil)
	if err != nil || strings.Join(changed.Requirements, " ") != "six attrs idna" || len(changed.PythonPath) != 3 {
		t.Errorf("the session is %+v, %v", changed, err)
	}
	if got := run(); !slices.Equal(got, changed.PythonPath) || w.installs.Load() != 3 {
		t.Errorf("the path is %q after %d installs", got, w.installs.Load())
	}
	if _, err := service.InstallInSession(t.Context(), "other", session.ID, []string{"idna"}, nil); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("another tenant's: %v", err)
	}
}

// TestLostPackagesOfASession: its code is not run without them, and they can be asked for again.
func TestLostPackagesOfASession(t *testing.T) {
	w := newWorld()
	service := w.service(t, sessionSettings())
	r := asking("six")
	r.Client = "c"
	if _, err := service.RunInSession(t.Context(), "", r, nil); err != nil {
		t.Fatal(err)
	}
	clear(w.folders)
	ran := 0
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) { ran++; return core.Exit{}, nil }
	if _, err := service.RunInSession(t.Context(), "", r, nil); core.KindOf(err) != core.ErrDependency || ran != 0 {
		t.Errorf("got %v, ran %d times", err, ran)
	}
	if _, err := service.RunInSession(t.Context(), "", r, nil); err != nil || ran != 1 || w.installs.Load() != 2 {
		t.Errorf("once more: %v, ran %d times, installed %d times", err, ran, w.installs.Load())
	}
}

// stock is an index with environments that were used so long ago, and their folders in one zone.
func (w *world) stock(t *testing.T, service *app.Service, ages map[string]time.Duration) {
	t.Helper()
	if _, err := service.RunOnce(t.Context(), asking("usual"), nil); err != nil {
		t.Fatal(err)
	}
	zones, _ := w.zones()
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.index)
	clear(w.folders)
	for name, age := range ages {
		w.index[name] = core.Environment{
			Key: name, Backend: "fake", Zone: zones[0], Folder: name, Size: 10, Created: w.now.Add(-age), Used: w.now.Add(-age),
		}
		w.folders[zones[0]+"/"+name] = true
	}
}

// keys are those of the environments in the index.
func (w *world) keys() string {
	environments, _ := w.indexed()
	var keys []string
	for _, e := range environments {
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

func TestCollect(t *testing.T) {
	const day = 24 * time.Hour
	ages := map[string]time.Duration{"now": 0, "lived": 9 * day, "hour": time.Hour, "day": day, "week": 7 * day}
	for name, c := range map[string]struct {
		keep app.Keep
		age  time.Duration
		left string
	}{
		"no bounds":        {left: "day hour lived now week"},
		"unused too long":  {keep: app.Keep{MaxAge: 6 * day}, left: "day hour lived now"},
		"installed before": {age: 2 * time.Hour, left: "hour lived now"},
		"one too many":     {keep: app.Keep{MaxSize: 49}, left: "day hour lived now"},
		"two too many":     {keep: app.Keep{MaxSize: 30}, left: "hour lived now"},
		"far too many":     {keep: app.Keep{MaxSize: 1}, left: "lived now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s := sessionSettings()
			s.Keep, s.EnvironmentAge = c.keep, c.age
			service := w.service(t, s)
			w.stock(t, service, ages)
			w.sessions.all = []core.Session{{ID: "s", Backend: "fake", PythonPath: []string{core.Environment{Folder: "lived"}.Path()}}}
			done, err := service.CollectEnvironments(t.Context())
			if err != nil || w.keys() != c.left {
				t.Errorf("left %q, %v", w.keys(), err)
			}
			if gone := len(ages) - len(strings.Fields(c.left)); done.Environments != gone || done.Bytes != int64(10*gone) {
				t.Errorf("it says %+v", done)
			}
			if all, err := service.Environments(t.Context()); err != nil || len(all) != len(strings.Fields(c.left)) {
				t.Errorf("listed %+v, %v", all, err)
			}
		})
	}
}

// TestRemains: a folder goes once nobody can use it any more, and not before.
func TestRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := sessionSettings()
		s.Keep.MaxAge = time.Hour
		service := w.service(t, s)
		w.stock(t, service, map[string]time.Duration{"a": 0, "b": 2 * time.Hour, "lived": 2 * time.Hour})
		synctest.Wait() // boxes are removed when nobody waits
		zones, _ := w.zones()
		half := core.Environment{Zone: zones[0], Folder: "half", Backend: "fake"}.Remains(w.now)
		redundant := w.index["a"].Remains(w.now)
		w.index[half.Key], w.index[redundant.Key] = half, redundant
		w.folders[zones[0]+"/half"] = true
		sweep := func(after time.Duration, want string) {
			t.Helper()
			synctest.Wait()
			w.now = w.now.Add(after)
			if err := service.SweepOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, folders := w.zones()
			if got := strings.ReplaceAll(strings.Join(folders, " "), zones[0]+"/", ""); got != want {
				t.Errorf("after %s the folders are %q, want %q", after, got, want)
			}
		}
		if _, err := service.CollectEnvironments(t.Context()); err != nil || w.keys() != "a" {
			t.Fatalf("left %q, %v", w.keys(), err)
		}
		synctest.Wait()
		lived := core.Session{ID: "s", Backend: "fake", PythonPath: []string{core.Environment{Folder: "lived"}.Path()}, Created: w.now, Used: w.now, MaxAge: 100 * time.Hour, IdleTimeout: 100 * time.Hour}
		w.sessions.all = []core.Session{lived} // it has just got it
		w.boxes["its box"] = core.Box{ID: "its box", Labels: core.Labels{Instance: "inst", Server: "me", Purpose: core.PurposeSession}}
		w.sessions.all[0].Box = "its box"
		sweep(0, "a b half lived")
		sweep(20*time.Minute, "a b half lived")
		sweep(20*time.Minute, "a lived")
		synctest.Wait()
		w.sessions.all = nil
		sweep(time.Minute, "a")
		if environments, remains := w.indexed(); len(environments) != 1 || len(remains) > 0 {
			t.Errorf("the index has %+v and %+v", environments, remains)
		}
	})
}

// TestZoneThatGoesBeforeItsFirstUse: the sweep of another server, or this one's first, may remove a zone in which nothing is.
func TestZoneThatGoesBeforeItsFirstUse(t *testing.T) {
	w := newWorld()
	s := w.service(t, settings())
	var once sync.Once
	w.creating = func() {
		once.Do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			clear(w.volumes)
		})
	}
	if r, err := s.RunOnce(t.Context(), request("print(1)"), nil); err != nil || r.Status != core.StatusOK {
		t.Errorf("got %v, %v, want it to run", r.Status, err)
	}
	if zones, _ := w.zones(); len(zones) != 1 {
		t.Errorf("the zones are %q, want one", zones)
	}
}
