package app_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// pair is a service on two backends, a is the default.
func pair(t *testing.T, change func(*app.Settings)) (service *app.Service, a, b *world) {
	t.Helper()
	f := newFleet(t, "", []string{"a"}, "a", "b")
	s := settings()
	if change != nil {
		change(&s)
	}
	a, b = f.worlds["a"], f.worlds["b"]
	return a.serviceOf(t, s, f.backends), a, b
}

func TestWhereARunGoes(t *testing.T) {
	service, _, _ := pair(t, func(s *app.Settings) {
		s.Choices = []string{"a", "b"}
		s.Routes = core.Routes{{Image: "python:3.12*", Backend: "b"}, {Image: "python:3.*", Language: "bash", Backend: "b"}}
	})
	for _, c := range []struct{ image, asked, want string }{
		{"", "", "a"},
		{"", "b", "b"},
		{"", "a", "a"},
		{"python:3.12-slim", "", "b"},
		{"docker.io/library/python:3.12", "b", "b"},
		{"python:3.10", "", "a"},
	} {
		r := request("x")
		r.Image, r.Backend = c.image, c.asked
		record, err := service.RunOnce(t.Context(), r, nil)
		if err != nil || record.Backend != c.want {
			t.Errorf("%+v: on %q, %v", c, record.Backend, err)
		}
	}
	for _, c := range []struct {
		image, asked string
		kind         core.Kind
		want         string
	}{
		{"", "c", core.ErrInvalid, `there is no backend "c" (the backends are: a, b)`},
		{"python:3.12", "a", core.ErrDenied, "this program does not run on a: the operator sends such programs to b (leave backend out)"},
	} {
		r := request("x")
		r.Image, r.Backend = c.image, c.asked
		if _, err := service.RunOnce(t.Context(), r, nil); core.KindOf(err) != c.kind || err.Error() != c.want {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// A route counts for a run that names no image, too: by the operator's default, or else by what the chosen
// backend would take.
func TestTheDefaultImageIsRouted(t *testing.T) {
	for name, c := range map[string]struct {
		usual, ofA, ofB, pattern string
		asked, want, image       string
		kind                     core.Kind
	}{
		"the operator's":         {usual: "python:3.12", pattern: "docker.io/library/python:3.12", want: "b", image: "python:3.12"},
		"the last resort":        {pattern: "python", want: "b", image: app.FallbackImage},
		"the backend's own":      {ofA: "team/tool:1", pattern: "team/*", want: "b", image: "team/tool:1"},
		"not that of b":          {ofB: core.ImageHost, pattern: "python", want: "b", image: app.FallbackImage},
		"of another pattern":     {ofB: core.ImageHost, pattern: "host", want: "a", image: app.FallbackImage},
		"asked for":              {pattern: "python", asked: "b", want: "b", image: app.FallbackImage},
		"asked for, elsewhere":   {pattern: "python", asked: "a", kind: core.ErrDenied},
		"the operator's, denied": {usual: "python:3.12", pattern: "python", asked: "a", kind: core.ErrDenied},
	} {
		service, a, b := pair(t, func(s *app.Settings) {
			s.DefaultImage, s.Choices = c.usual, []string{"a", "b"}
			s.Routes = core.Routes{{Image: c.pattern, Backend: "b"}}
		})
		a.image, b.image = c.ofA, c.ofB
		r := request("x")
		r.Backend = c.asked
		record, err := service.RunOnce(t.Context(), r, nil)
		if record.Backend != c.want || record.Image.Ref != c.image || core.KindOf(err) != c.kind {
			t.Errorf("%s: on %q in %q, %v", name, record.Backend, record.Image.Ref, err)
		}
		if made := len(a.specs); c.want != "a" && made > 0 {
			t.Errorf("%s: a made %d boxes", name, made)
		}
	}
}

// The backend to which the default image is sent has to hold all limits, as any other.
func TestTheRoutedBackendIsCheckedToo(t *testing.T) {
	service, _, b := pair(t, func(s *app.Settings) {
		s.DefaultImage, s.Routes = "", core.Routes{{Image: "python", Backend: "b"}}
	})
	b.breaks("hold memory", errors.New("no"))
	_, err := service.RunOnce(t.Context(), request("x"), nil)
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), "backend b: ") || len(b.specs) != 0 {
		t.Errorf("got %v, made %d boxes", err, len(b.specs))
	}
}

// TestABackendIsAskedOnce: calls that come while it tells about itself wait for the one answer, be it good or bad.
func TestABackendIsAskedOnce(t *testing.T) {
	for _, trouble := range []error{nil, errors.New("it hangs")} {
		synctest.Test(t, func(t *testing.T) {
			service, a, _ := pair(t, nil)
			a.breaks("info", trouble)
			var asked atomic.Int32
			answer := make(chan struct{})
			a.asked = func(context.Context) { asked.Add(1); <-answer }
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if _, err := service.RunOnce(t.Context(), request("x"), nil); (err == nil) != (trouble == nil) {
						t.Errorf("with %v: %v", trouble, err)
					}
				})
			}
			synctest.Wait()
			close(answer)
			all.Wait()
			if n := asked.Load(); n != 1 {
				t.Errorf("with %v it was asked %d times", trouble, n)
			}
		})
	}
}

func TestClientsChooseOnlyWhatIsOffered(t *testing.T) {
	service, _, b := pair(t, nil)
	r := request("x")
	r.Backend = "b"
	if _, err := service.RunOnce(t.Context(), r, nil); core.KindOf(err) != core.ErrInvalid || b.opened.Load() != 0 {
		t.Errorf("got %v, started %d times", err, b.opened.Load())
	}
}

func TestTheImageOfABackend(t *testing.T) {
	service, a, b := pair(t, func(s *app.Settings) { s.DefaultImage, s.Choices = "", []string{"a", "b"} })
	b.image = core.ImageHost
	try := func(image, backend string) (core.Record, error) {
		r := request("x")
		r.Image, r.Backend = image, backend
		return service.RunOnce(t.Context(), r, nil)
	}
	for _, c := range []struct{ image, backend, want string }{
		{"", "a", app.FallbackImage}, {"", "b", "host"}, {"host", "b", "host"}, {"python:3.10", "b", "python:3.10"},
	} {
		record, err := try(c.image, c.backend)
		if err != nil || record.Image.Ref != c.want {
			t.Errorf("%+v: in %q, %v", c, record.Image.Ref, err)
		}
	}
	for _, c := range []struct{ image, backend string }{{"host", "a"}, {"alpine", "b"}} {
		if _, err := try(c.image, c.backend); core.KindOf(err) != core.ErrDenied {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	if len(a.specs) != 1 || len(b.specs) != 3 {
		t.Errorf("%d and %d boxes were made", len(a.specs), len(b.specs))
	}
}

func TestTheOperatorsImageOutranksTheBackends(t *testing.T) {
	service, a, _ := pair(t, func(s *app.Settings) { s.DefaultImage = "team/tool:1" }) // not among the allowed ones
	a.image = core.ImageHost
	record, err := service.RunOnce(t.Context(), request("x"), nil)
	if err != nil || record.Image.Ref != "team/tool:1" {
		t.Errorf("in %q, %v", record.Image.Ref, err)
	}
}

func TestABackendWithoutAProperImage(t *testing.T) {
	service, a, _ := pair(t, func(s *app.Settings) { s.DefaultImage = "" })
	a.image = "../../etc"
	_, err := service.RunOnce(t.Context(), request("x"), nil)
	if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "default image") {
		t.Errorf("got %v", err)
	}
}

// Both may have an image of the same content: a volume is in one engine all the same.
func TestEnvironmentsAreOfOneBackend(t *testing.T) {
	service, a, b := pair(t, func(s *app.Settings) { s.Choices = []string{"a", "b"} })
	for range 2 {
		for _, name := range []string{"a", "b"} {
			r := request("x")
			r.Backend, r.Dependencies = name, []string{"six"}
			if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if n := a.installs.Load(); n != 2 { // a has the installer of both
		t.Errorf("installed %d times, want once on each", n)
	}
	owners := map[string]string{}
	for _, e := range a.index {
		owners[e.Backend] = e.Zone
	}
	if _, has := a.volumes[owners["a"]]; !has || owners["a"] == owners["b"] {
		t.Errorf("environments are %v", owners)
	}
	for name := range a.volumes {
		if _, has := b.volumes[name]; has {
			t.Errorf("both have a volume %s", name)
		}
	}
	if len(a.volumes) != 2 || len(b.volumes) != 2 {
		t.Errorf("volumes are %v and %v, want a zone and a cache in each", a.volumes, b.volumes)
	}
}

func leave(w *world, id string) {
	w.boxes[id] = core.Box{ID: id, Labels: core.Labels{Instance: "inst", Server: "dead", Expires: w.now.Add(time.Hour)}}
	w.volumes[id] = core.Volume{Name: id, Created: w.now, Labels: core.Labels{Instance: "inst", Server: "dead", Purpose: core.PurposeEnvironment}}
}

// holds reports whether the box or the volume of that name is there.
func (w *world) holds(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, box := w.boxes[id]
	_, volume := w.volumes[id]
	return box || volume
}

func TestEveryBackendInUseIsSwept(t *testing.T) {
	service, a, b := pair(t, func(s *app.Settings) { s.Choices = []string{"a", "b"} })
	leave(a, "left")
	leave(b, "left")
	if err := service.SweepOnce(t.Context()); err != nil || a.holds("left") {
		t.Errorf("a still has it, or %v", err)
	}
	if b.opened.Load() != 0 || !b.holds("left") {
		t.Errorf("one that nobody uses was started %d times", b.opened.Load())
	}
	r := request("x")
	r.Backend = "b"
	if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	a.breaks("list", down("a"))
	if err := service.SweepOnce(t.Context()); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %v, want a's error", err)
	}
	if b.holds("left") {
		t.Error("as a is away, b still has it")
	}
}

// Two backends may lead to one engine, and each lists the boxes of the other.
func TestBackendsThatShareAnEngine(t *testing.T) {
	w := newWorld()
	backends := app.NewBackends([]app.Source{w.source("a"), w.source("b")}, app.Preference{Names: []string{"a"}}, discard())
	s := settings()
	s.Choices = []string{"a", "b"}
	service := w.serviceOf(t, s, backends)
	w.run = func(ctx context.Context, _ core.RunSpec) (core.Exit, error) {
		if err := service.SweepOnce(ctx); err != nil {
			t.Error(err)
		}
		if boxes, _ := w.counts(); boxes != 1 {
			t.Errorf("%d boxes are there while one runs", boxes)
		}
		return core.Exit{}, nil
	}
	for _, name := range []string{"b", "a", "b"} {
		r := request("x")
		r.Backend = name
		if _, err := service.RunOnce(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		awaits(t, "end of the box", func() bool { boxes, _ := w.counts(); return boxes == 0 })
	}
}

func TestOneThatHangsKeepsNobodyFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, _ := pair(t, func(s *app.Settings) { s.Choices, s.MaxConcurrent = []string{"a", "b"}, 1 })
		a.hang = "create"
		hanging := make(chan error)
		go func() {
			_, err := service.RunOnce(t.Context(), request("x"), nil)
			hanging <- err
		}()
		synctest.Wait()
		r := request("x")
		r.Backend = "b"
		if record, err := service.RunOnce(t.Context(), r, nil); err != nil || record.Backend != "b" {
			t.Errorf("on %q, %v", record.Backend, err)
		}
		if err := <-hanging; core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "the backend a did not make a box within 2m0s") {
			t.Errorf("got %v", err)
		}
	})
}

// One that hangs does not keep the server from its end.
func TestCloseWhileOneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, _ := pair(t, nil)
		a.hang = "create"
		hanging := make(chan error)
		go func() {
			_, err := service.RunOnce(t.Context(), request("x"), nil)
			hanging <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if err := errors.Join(service.Close(ctx), ctx.Err()); err != nil {
			t.Error(err)
		}
		if err := <-hanging; core.KindOf(err) != core.ErrCancelled {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnImageThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, _ := pair(t, nil)
		a.hang = "image"
		_, err := service.RunOnce(t.Context(), request("x"), nil)
		if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "the backend a showed no progress with image python:3.11-slim for 5m0s") {
			t.Errorf("got %v", err)
		}
	})
}

func TestALimitThatDoesNotHold(t *testing.T) {
	service, a, _ := pair(t, nil)
	a.breaks("hold memory", errors.New("no"))
	_, err := service.RunOnce(t.Context(), request("x"), nil)
	want := "backend a: this engine cannot enforce the memory limit (enable the control groups of the engine's machine, or set limits.unenforced to warn)"
	if core.KindOf(err) != core.ErrUnsupported || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if len(a.specs) != 0 {
		t.Error("a box was made")
	}
	a.breaks("hold memory", nil)
	if _, err := service.RunOnce(t.Context(), request("x"), nil); err != nil {
		t.Errorf("once it holds: %v", err)
	}
}

func TestALimitThatNeedNotHold(t *testing.T) {
	service, a, _ := pair(t, func(s *app.Settings) { s.Unenforced = core.UnenforcedWarn })
	a.breaks("hold memory", errors.New("no"))
	a.warns = []string{"the memory limit does not hold"}
	record, err := service.RunOnce(t.Context(), request("x"), nil)
	if err != nil || len(record.Warnings) != 1 || record.Warnings[0] != a.warns[0] || a.specs[0].Unenforced != core.UnenforcedWarn {
		t.Errorf("warnings %q, %v", record.Warnings, err)
	}
}
