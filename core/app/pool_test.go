package app_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/ports/execution"
)

// pooled is a world whose boxes can be told apart. Making one takes as long as on a real engine.
type pooled struct {
	*world
	service *app.Service

	mu     sync.Mutex
	runs   map[string]int  // by box
	gone   map[string]bool // boxes whose stream has ended
	mute   map[string]bool // boxes that do not answer
	looks  int             // how often an image was looked at
	tries  int             // how often a box was asked for
	digest string
}

// withPool starts a service in a synctest bubble, and lets it come to rest.
func withPool(t *testing.T, change func(*app.Settings)) *pooled {
	t.Helper()
	p := &pooled{world: newWorld(), runs: map[string]int{}, gone: map[string]bool{}, mute: map[string]bool{}, digest: "sha256:1"}
	s := settings()
	s.MaxTimeout = 24 * time.Hour
	s.Pool = app.Pool{Size: 1, Max: 4, IdleTimeout: 10 * time.Minute, MaxAge: 30 * time.Minute, Preload: []string{"numpy"}}
	if change != nil {
		change(&s)
	}
	source := app.Source{Name: "fake", Installed: func() error { return nil }, Open: func() app.Plugin { return p }}
	backends := app.NewBackends([]app.Source{source}, app.Preference{Names: []string{"fake"}}, discard())
	p.service = app.New(app.Ports{
		Backends: backends, Guests: p, Artifacts: (*files)(p.world), Installer: p.world, Index: (*index)(p.world),
		Sessions: p.sessions, Runs: p.world.runs, Usage: &usageStore{}, Instance: "inst", Server: "me",
		Alive: func(server string) bool { return server == "me" },
		Now:   time.Now, NewID: p.newID, Log: discard(),
	}, s)
	t.Cleanup(func() { _ = p.service.Close(context.Background()) })
	go p.service.Sweep(t.Context())
	time.Sleep(time.Second)
	return p
}

func (p *pooled) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	p.mu.Lock()
	p.looks++
	digest := p.digest
	p.mu.Unlock()
	image, err := p.world.EnsureImage(ctx, ref, policy, progress)
	image.Digest = digest
	return image, err
}

func (p *pooled) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	p.mu.Lock()
	p.tries++
	p.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	return p.world.Create(ctx, spec)
}

func (p *pooled) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	p.world.mu.Lock()
	p.now = time.Now()
	p.world.mu.Unlock()
	return p.world.EnsureVolume(ctx, v)
}

func (p *pooled) Connect(_ context.Context, _ execution.Backend, box string) (execution.Guest, error) {
	return &counted{guest{p.world, box, &sync.Once{}}, p, box}, nil
}

// counted is a guest that notes which box ran something.
type counted struct {
	guest
	pooled *pooled
	box    string
}

func (c *counted) Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error) {
	c.pooled.mu.Lock()
	c.pooled.runs[c.box]++
	c.pooled.mu.Unlock()
	return c.guest.Run(ctx, spec, sink)
}

func (c *counted) Stands() bool {
	c.pooled.mu.Lock()
	defer c.pooled.mu.Unlock()
	return !c.pooled.gone[c.box]
}

func (c *counted) ReadOutput(context.Context, string, core.Stream, io.Writer, int64) (int64, error) {
	c.pooled.mu.Lock()
	defer c.pooled.mu.Unlock()
	if c.pooled.mute[c.box] {
		return 0, core.Errorf(core.ErrUnavailable, "the box cannot be reached any more")
	}
	return 0, core.Errorf(core.ErrNotFound, "this box knows no such run")
}

// there are the boxes of the engine, by id.
func (p *pooled) there() []string {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return slices.Sorted(maps.Keys(p.boxes))
}

// made are the boxes that were asked for, in order.
func (p *pooled) made() []core.BoxSpec {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return slices.Clone(p.specs)
}

// ran are the runs of each box.
func (p *pooled) ran() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.runs)
}

func (p *pooled) counts() (tries, looks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries, p.looks
}

// call runs a program and returns how long its box took.
func (p *pooled) call(t *testing.T, r core.Request) time.Duration {
	t.Helper()
	record, err := p.service.RunOnce(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return record.Durations[core.PhaseBox]
}

// TestPool: each case has a service of its own, and leaves nothing.
func TestPool(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*app.Settings)
		check  func(*testing.T, *pooled)
	}{
		"a run finds a box":      {nil, aRunFindsABox},
		"nobody's before":        {nil, nobodysBefore},
		"used once":              {func(s *app.Settings) { s.MaxConcurrent = 50 }, usedOnce},
		"demand":                 {nil, followsDemand},
		"another kind":           {func(s *app.Settings) { s.Images = core.ImagePolicy{"*"} }, anotherKind},
		"old ones":               {nil, oldOnesGo},
		"out of reach":           {nil, outOfReach},
		"too short a life":       {nil, tooShortALife},
		"an image tagged anew":   {nil, taggedAnew},
		"an image that is gone":  {nil, imageGone},
		"an engine that fails":   {nil, engineFails},
		"a client that panics":   {nil, engineFaults},
		"room for others":        {func(s *app.Settings) { s.MaxBoxes, s.Pool.Size = 2, 2 }, roomForOthers},
		"memory for others":      {func(s *app.Settings) { s.MaxMemory, s.Pool.Size = 2*s.Limits.MemoryBytes, 2 }, roomForOthers},
		"its own ceiling":        {func(s *app.Settings) { s.Pool.Size, s.Pool.MaxMemory = 4, 400<<20 }, ownCeiling},
		"without":                {func(s *app.Settings) { s.Pool = app.Pool{} }, without},
		"only what is asked for": {func(s *app.Settings) { s.Pool.Size = 0 }, onlyWhatIsAskedFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := withPool(t, test.change)
				test.check(t, p)
				if err := p.service.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if left := p.there(); len(left) > 0 {
					t.Errorf("boxes are left: %q", left)
				}
			})
		})
	}
}

// The box is there before anybody asks, the call reaches no engine, and the next box is there soon.
func aRunFindsABox(t *testing.T, p *pooled) {
	for n := 1; n <= 3; n++ {
		before, looked := p.counts()
		ready := p.there()
		if len(ready) != 1 || before != n {
			t.Fatalf("%d boxes wait, %d were made", len(ready), before)
		}
		if took := p.call(t, request("x")); took != 0 {
			t.Errorf("the box took %s", took)
		}
		if made, looks := p.counts(); made != before || looks != looked {
			t.Errorf("the call made %d boxes and looked at %d images", made-before, looks-looked)
		}
		if p.ran()[ready[0]] != 1 {
			t.Errorf("another box was used: %v", p.ran())
		}
		time.Sleep(time.Second)
	}
}

// What waits has no owner, and the modules loaded; one that a run makes for itself has neither, nor does it share.
func nobodysBefore(t *testing.T, p *pooled) {
	r := request("x")
	p.call(t, r)
	p.call(t, r)
	waited, own := p.made()[0], p.made()[1]
	if waited.Labels.Tenant != "" || waited.Labels.Purpose != core.PurposeRun || !slices.Equal(waited.Preload, []string{"numpy"}) {
		t.Errorf("a waiting box has %+v", waited)
	}
	if life := time.Until(waited.Labels.Expires); life < 39*time.Minute || life > 40*time.Minute {
		t.Errorf("it lives for %s", life)
	}
	if own.Labels.Tenant != "local" || own.Preload != nil {
		t.Errorf("a run's own box has %+v", own)
	}
}

func usedOnce(t *testing.T, p *pooled) {
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := p.service.RunOnce(t.Context(), request("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(p.ran()) != 50 {
		t.Errorf("50 runs were in %d boxes: %v", len(p.ran()), p.ran())
	}
}

// Three at once find three boxes the next time; after some quiet minutes one waits again.
func followsDemand(t *testing.T, p *pooled) {
	burst := func() (fast int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 3 {
			all.Go(func() {
				took := p.call(t, request("x"))
				mu.Lock()
				defer mu.Unlock()
				if took == 0 {
					fast++
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Second)
		return fast
	}
	if first, second := burst(), burst(); first != 1 || second != 3 {
		t.Errorf("of three at once %d, then %d found a box", first, second)
	}
	if n := len(p.there()); n != 3 {
		t.Errorf("%d boxes wait after it", n)
	}
	time.Sleep(5 * time.Minute)
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait when all is quiet", n)
	}
}

// Runs of another image find a box as well, until nobody has asked for that image for some time.
func anotherKind(t *testing.T, p *pooled) {
	r := request("x")
	r.Image = "team/tool:1"
	if first := p.call(t, r); first == 0 {
		t.Error("the first took no time")
	}
	time.Sleep(time.Second)
	if second := p.call(t, r); second != 0 {
		t.Errorf("the second took %s", second)
	}
	time.Sleep(time.Second)
	if n := len(p.there()); n != 2 {
		t.Errorf("%d boxes wait, want one of each image", n)
	}
	time.Sleep(11 * time.Minute)
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait", n)
	}
}

func oldOnesGo(t *testing.T, p *pooled) {
	first := p.there()
	time.Sleep(29 * time.Minute)
	if !slices.Equal(p.there(), first) {
		t.Errorf("%q became %q", first, p.there())
	}
	time.Sleep(2 * time.Minute)
	if now := p.there(); len(now) != 1 || now[0] == first[0] {
		t.Errorf("%q became %q", first, now)
	}
}

// A box whose stream has ended is not handed out; one that only hangs is found out.
func outOfReach(t *testing.T, p *pooled) {
	first := p.there()[0]
	p.mu.Lock()
	p.gone[first] = true
	p.mu.Unlock()
	p.call(t, request("x"))
	if p.ran()[first] != 0 {
		t.Error("a run got the box that is gone")
	}
	time.Sleep(2 * time.Second)
	second := p.there()[0]
	p.mu.Lock()
	p.mute[second] = true
	p.mu.Unlock()
	time.Sleep(15 * time.Second)
	if now := p.there(); len(now) != 1 || now[0] == second {
		t.Errorf("%s became %q", second, now)
	}
}

// A box that ends by itself before the run has to is not for this run, but for others.
func tooShortALife(t *testing.T, p *pooled) {
	first, long := p.there(), time.Hour
	r := request("x")
	r.Timeout = &long
	if took := p.call(t, r); took == 0 || p.ran()[first[0]] != 0 {
		t.Errorf("it ran in the waiting box, after %s", took)
	}
	if took := p.call(t, request("x")); took != 0 {
		t.Errorf("the next took %s", took)
	}
}

func taggedAnew(t *testing.T, p *pooled) {
	old := p.there()
	p.mu.Lock()
	p.digest = "sha256:2"
	p.mu.Unlock()
	time.Sleep(time.Minute)
	now, last := p.there(), p.made()[1]
	if len(now) != 1 || now[0] == old[0] || last.Digest != "sha256:2" {
		t.Errorf("%q became %q of %+v", old, now, last)
	}
	if took := p.call(t, request("x")); took != 0 || p.ran()[now[0]] != 1 {
		t.Errorf("the run took %s, in %v", took, p.ran())
	}
}

// No box of an image waits that is not there any more.
func imageGone(t *testing.T, p *pooled) {
	p.breaks("image", core.Errorf(core.ErrNotFound, "no such image"))
	time.Sleep(time.Minute)
	if n := len(p.there()); n != 0 {
		t.Errorf("%d boxes wait", n)
	}
	p.breaks("image", nil)
	p.call(t, request("x"))
	time.Sleep(time.Second)
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait when it is back", n)
	}
}

// An engine that fails is left in peace, each run tries for itself, and when it works again boxes wait again.
func engineFails(t *testing.T, p *pooled) {
	p.call(t, request("x"))
	p.breaks("create", core.Errorf(core.ErrUnavailable, "no engine"))
	before, _ := p.counts()
	time.Sleep(30 * time.Minute)
	if after, _ := p.counts(); after-before < 3 || after-before > 14 {
		t.Errorf("it was tried %d times in half an hour", after-before)
	}
	before, _ = p.counts()
	if _, err := p.service.RunOnce(t.Context(), request("x"), nil); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %v", err)
	}
	if after, _ := p.counts(); after != before+1 {
		t.Errorf("the run tried %d times", after-before)
	}
	p.breaks("create", nil)
	time.Sleep(6 * time.Minute)
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait", n)
	}
}

// A fault of the engine's client is one failure like any.
func engineFaults(t *testing.T, p *pooled) {
	p.breaks("create", errFault)
	p.call(t, request("x"))
	synctest.Wait()
	if len(p.there()) != 0 { // it took the one that waited
		t.Fatalf("%d boxes wait", len(p.there()))
	}
	time.Sleep(time.Minute)
	p.breaks("create", nil)
	time.Sleep(6 * time.Minute)
	if n := len(p.there()); n != 1 {
		t.Errorf("%d boxes wait", n)
	}
}

// Two boxes may be there at all, and two wait: one makes room for a run that needs a box of its own.
func roomForOthers(t *testing.T, p *pooled) {
	if n := len(p.there()); n != 2 {
		t.Fatalf("%d boxes wait", n)
	}
	started, end := make(chan struct{}), make(chan struct{})
	p.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		close(started)
		<-end
		return core.Exit{}, nil
	}
	r, long := request("x"), time.Hour
	r.Timeout = &long // no waiting box is good for that
	var one sync.WaitGroup
	one.Go(func() { p.call(t, r) })
	<-started
	time.Sleep(5 * time.Second)
	if n := len(p.there()); n != 2 {
		t.Errorf("there are %d boxes beside the one that runs", n-1)
	}
	close(end)
	one.Wait()
	time.Sleep(5 * time.Second)
	if n := len(p.there()); n != 2 {
		t.Errorf("%d boxes wait after it", n)
	}
}

// A box with modules counts as 160 MiB, so that two fit into 400.
func ownCeiling(t *testing.T, p *pooled) {
	time.Sleep(time.Minute)
	if n := len(p.there()); n != 2 {
		t.Errorf("%d boxes wait", n)
	}
}

func without(t *testing.T, p *pooled) {
	for range 3 {
		p.call(t, request("x"))
		time.Sleep(time.Minute)
		if n := len(p.there()); n != 0 {
			t.Fatalf("%d boxes wait", n)
		}
	}
}

func onlyWhatIsAskedFor(t *testing.T, p *pooled) {
	if n := len(p.there()); n != 0 {
		t.Errorf("%d boxes wait from the start", n)
	}
	p.call(t, request("x"))
	time.Sleep(time.Second)
	if took := p.call(t, request("x")); took != 0 {
		t.Errorf("the second run's box took %s", took)
	}
}

// Whatever packages a run asks for, and whoever it is of: one kind of box is for all.
func TestPoolServesPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withPool(t, nil)
		r := request("x")
		for round := range 2 {
			for _, package_ := range []string{"six", "attrs"} {
				r.Dependencies, r.Tenant = []string{package_}, fmt.Sprint("tenant", round)
				if took := p.call(t, r); took != 0 {
					t.Errorf("round %d, %s: the box took %s", round, package_, took)
				}
				time.Sleep(5 * time.Second)
			}
		}
		kinds := map[string]int{}
		for _, spec := range p.made() {
			if spec.Labels.Purpose == core.PurposeRun {
				kinds[fmt.Sprint(spec.Mounts, spec.Preload)]++
			}
		}
		if len(kinds) != 1 || p.installs.Load() != 2 {
			t.Errorf("%d installs, the boxes are %v", p.installs.Load(), kinds)
		}
	})
}
