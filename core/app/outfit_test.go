package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

// TestInstallationsFindBoxes: each case has a service of its own, and leaves nothing.
func TestInstallationsFindBoxes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*app.Settings)
		check  func(*testing.T, *pooled)
	}{
		"from the start":       {nil, installationsFromTheStart},
		"others when asked":    {func(s *app.Settings) { s.Images = core.ImagePolicy{"*"} }, installationsOfAnotherImage},
		"each zone its own":    {func(s *app.Settings) { s.Pool.Max = 20 }, installationsOfAnotherZone},
		"one that is not fit":  {nil, installationsInABrokenBox},
		"a failed preparation": {nil, installationsWithoutPreparation},
		"old ones":             {nil, oldOutfitsGo},
		"none meanwhile":       {nil, noneDuringAnInstallation},
		"room for others":      {func(s *app.Settings) { s.MaxBoxes = 2 }, noRoomForOutfits},
		"the pool's room":      {func(s *app.Settings) { s.Pool.Max = 2 }, noRoomForOutfits},
		"the pool's memory":    {func(s *app.Settings) { s.Pool.MaxMemory = 200 << 20 }, noRoomForOutfits},
		"none":                 {func(s *app.Settings) { s.Pool.Installers = 0 }, noRoomForOutfits},
		"no packages":          {func(s *app.Settings) { s.Dependencies = false }, noRoomForOutfits},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := withPool(t, func(s *app.Settings) {
					s.Pool.Installers = 1
					if test.change != nil {
						test.change(s)
					}
				})
				test.check(t, p)
				if err := p.service.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if boxes, volumes := p.there(), p.fillable(); len(boxes)+len(volumes) > 0 {
					t.Errorf("boxes and volumes are left: %q, %q", boxes, volumes)
				}
			})
		})
	}
}

// fillable are the volumes that are there to be filled.
func (p *pooled) fillable() (names []string) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	for name, v := range p.volumes {
		if v.Labels.Purpose == core.PurposeEnvironment {
			names = append(names, name)
		}
	}
	return names
}

// install runs a program with packages and returns how long it waited for them.
func (p *pooled) install(t *testing.T, r core.Request) time.Duration {
	t.Helper()
	record, err := p.service.RunOnce(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return record.Durations[core.PhaseDependencies]
}

// Both boxes and their volume are there before anybody asks, are nobody's, and serve one installation.
func installationsFromTheStart(t *testing.T, p *pooled) {
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait in a server that has just begun", n)
	}
	used := map[string]bool{}
	for n := 1; n <= 3; n++ {
		time.Sleep(30 * time.Second)
		made, volumes := len(p.made()), p.fillable()
		if len(p.there()) != 3 || len(volumes) != 1 || used[volumes[0]] {
			t.Fatalf("%q wait with %q", p.there(), volumes)
		}
		used[volumes[0]] = true
		if took := p.install(t, asking(fmt.Sprint("package", n))); took != 0 || len(p.made()) != made || p.readyInstalls.Load() != int64(n) {
			t.Errorf("it took %s and made %+v", took, p.made()[made:])
		}
	}
	for _, spec := range slices.Concat(p.madeFor(core.PurposeInstall), p.madeFor(core.PurposeKeep)) {
		trims := spec.Mounts[0].Path == core.GuestCache
		if spec.Labels.Tenant != "" || !trims && !strings.HasPrefix(spec.Mounts[0].Volume, "boxwright-env-") {
			t.Errorf("it waited as %+v", spec)
		}
	}
}

func installationsOfAnotherImage(t *testing.T, p *pooled) {
	for n, want := range []int64{0, 1} {
		r := asking(fmt.Sprint("package", n))
		r.Image = "team/tool:1"
		p.install(t, r)
		if got := p.readyInstalls.Load(); got != want {
			t.Errorf("after %d, %d were in boxes that waited", n+1, got)
		}
		time.Sleep(30 * time.Second)
	}
	time.Sleep(11 * time.Minute)
	if n := len(p.there()); n != 3 {
		t.Errorf("%d boxes wait", n)
	}
}

// What waits for one tenant's packages is not handed to another who has a zone of their own.
func installationsOfAnotherZone(t *testing.T, p *pooled) {
	p.breaks("private", core.Errorf(core.ErrDenied, "the index wants to know who asks"))
	time.Sleep(30 * time.Second)
	for n, tenant := range []string{"one", "other", "one"} {
		r := asking(fmt.Sprint("package", n))
		r.Tenant = tenant
		p.install(t, r)
		if got, want := p.readyInstalls.Load(), int64(n/2); got != want {
			t.Errorf("after %d, %d were in boxes that waited", n+1, got)
		}
		time.Sleep(30 * time.Second)
	}
	for _, spec := range p.madeFor(core.PurposeInstall) {
		if slices.ContainsFunc(spec.Mounts, func(m core.Mount) bool { return m.Path == core.GuestEnvironments }) {
			t.Errorf("an installer has a zone: %+v", spec)
		}
	}
}

// A box whose stream has ended serves no installation, and its courier and volume go with it.
func installationsInABrokenBox(t *testing.T, p *pooled) {
	time.Sleep(30 * time.Second)
	p.mu.Lock()
	for _, box := range p.there() {
		p.gone[box] = true
	}
	p.mu.Unlock()
	p.install(t, asking("six"))
	if p.readyInstalls.Load() != 0 {
		t.Error("it was handed out")
	}
	time.Sleep(30 * time.Second)
	if len(p.there()) != 3 || len(p.fillable()) != 1 {
		t.Errorf("%q wait with %q", p.there(), p.fillable())
	}
}

func installationsWithoutPreparation(t *testing.T, p *pooled) {
	p.breaks("prepare", core.Errorf(core.ErrUnavailable, "the box is lost"))
	time.Sleep(time.Minute)
	if len(p.there()) != 1 || len(p.fillable()) != 0 {
		t.Errorf("%q wait with %q", p.there(), p.fillable())
	}
	if p.install(t, asking("six")); p.installs.Load() != 1 || p.readyInstalls.Load() != 0 {
		t.Errorf("%d installs, %d in boxes that waited", p.installs.Load(), p.readyInstalls.Load())
	}
	p.breaks("prepare", nil)
	time.Sleep(6 * time.Minute)
	if n := len(p.there()); n != 3 {
		t.Errorf("%d boxes wait", n)
	}
}

// The sweep takes no volume of boxes that wait, and these are replaced once they are old.
func oldOutfitsGo(t *testing.T, p *pooled) {
	time.Sleep(28 * time.Minute)
	if err := p.service.SweepOnce(t.Context()); err != nil {
		t.Error(err)
	}
	first := p.fillable()
	time.Sleep(10 * time.Minute)
	if now := p.fillable(); len(first) != 1 || len(now) != 1 || now[0] == first[0] || len(p.there()) != 3 {
		t.Errorf("%q became %q", first, now)
	}
}

// The next boxes would take their share of the machine from the installation that is under way, and from its run.
func noneDuringAnInstallation(t *testing.T, p *pooled) {
	time.Sleep(30 * time.Second)
	p.world.install = func(context.Context) error {
		time.Sleep(30 * time.Second)
		return nil
	}
	p.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		time.Sleep(5 * time.Second)
		if n := len(p.madeFor(core.PurposeInstall)); n != 1 {
			t.Errorf("%d boxes for installations were made meanwhile", n-1)
		}
		return core.Exit{}, nil
	}
	p.install(t, asking("six"))
}

func noRoomForOutfits(t *testing.T, p *pooled) {
	time.Sleep(time.Minute)
	if len(p.there()) != 1 || len(p.fillable()) != 0 {
		t.Errorf("%q wait with %q", p.there(), p.fillable())
	}
}
