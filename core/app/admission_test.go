package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

const gib = 1 << 30

// desk is an admission and the claims that were let in, in their order.
type desk struct {
	*admission
	t     *testing.T
	quota Quota

	mu      sync.Mutex
	entered []string
	tickets map[string]*ticket
	errs    map[string]error
	places  map[string][]int
}

func newDesk(t *testing.T, s Settings) *desk {
	if s.MaxWait == 0 {
		s.MaxWait = time.Hour
	}
	return &desk{
		admission: newAdmission(s, time.Now), t: t, quota: s.Quota,
		tickets: map[string]*ticket{}, errs: map[string]error{}, places: map[string][]int{},
	}
}

// come has somebody ask under a name, and returns once that one waits or has an answer.
func (d *desk) come(ctx context.Context, name string, c claim) {
	d.t.Helper()
	c.quota = d.quota
	go func() {
		got, err := d.enter(ctx, c, func(position int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.places[name] = append(d.places[name], position)
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.tickets[name], d.errs[name] = got, err; err == nil {
			d.entered = append(d.entered, name)
		}
	}()
	synctest.Wait()
}

// leaves has one give its ticket back.
func (d *desk) leaves(name string) {
	d.tickets[name].release()
	synctest.Wait()
}

func (d *desk) err(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.errs[name]
}

func (d *desk) wants(entered ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.entered, entered) {
		d.t.Errorf("let in were %q, want %q", d.entered, entered)
	}
}

func oneOf(tenant string) claim { return claim{tenant: tenant, backend: "docker", memory: gib} }

// Tenants take turns, and each one's claims come in their order.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Settings{MaxConcurrent: 1, MaxQueued: 9})
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			d.come(t.Context(), name, oneOf(name[:1]))
		}
		for _, name := range []string{"a1", "a2", "b1", "c1", "a3", "b2", "a4"} {
			if last := d.entered[len(d.entered)-1]; last != name {
				t.Fatalf("%s is in, want %s; so far %q", last, name, d.entered)
			}
			d.leaves(name)
		}
		if len(d.tenants) != 0 || d.inUse() != (amounts{}) {
			t.Errorf("left are %v and %+v", d.tenants, d.inUse())
		}
	})
}

// Each is told its place in the queue, as often as that changes.
func TestPlacesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Settings{MaxConcurrent: 1, MaxQueued: 9})
		for _, name := range []string{"a1", "a2", "a3", "b1"} {
			d.come(t.Context(), name, oneOf(name[:1]))
		}
		for _, name := range []string{"a1", "a2", "b1"} {
			d.leaves(name)
		}
		for name, want := range map[string][]int{"a1": nil, "a2": {1}, "a3": {2, 3, 2, 1}, "b1": {2, 1}} {
			if got := d.places[name]; !slices.Equal(got, want) {
				t.Errorf("%s was told %v, want %v", name, got, want)
			}
		}
	})
}

// What one lacks does not keep those who need something else, and a tenant's small claims do not slip past its big one.
func TestWhoIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Settings{MaxConcurrent: 2, MaxQueued: 9, MaxMemory: 3 * gib, Quota: Quota{Runs: 3}})
		d.come(t.Context(), "1", oneOf("a"))
		d.come(t.Context(), "2", oneOf("a"))
		d.come(t.Context(), "no slot", oneOf("a"))
		d.come(t.Context(), "big", claim{tenant: "a", backend: "podman", memory: 2 * gib})
		d.come(t.Context(), "small, behind it", claim{tenant: "a", backend: "podman", memory: gib})
		d.come(t.Context(), "no box", claim{tenant: "a", backend: "podman", kind: claimCall})
		d.come(t.Context(), "quota", claim{tenant: "a", backend: "podman", kind: claimCall})
		d.come(t.Context(), "another's", claim{tenant: "c", backend: "podman", kind: claimCall})
		d.wants("1", "2", "no box", "another's")
		d.leaves("no box")
		d.wants("1", "2", "no box", "another's", "quota")
		d.leaves("1")
		d.wants("1", "2", "no box", "another's", "quota", "no slot")
		d.leaves("2")
		d.leaves("another's")
		d.wants("1", "2", "no box", "another's", "quota", "no slot", "big")
		d.leaves("no slot")
		d.leaves("quota")
		d.wants("1", "2", "no box", "another's", "quota", "no slot", "big", "small, behind it")
	})
}

// Too many, or too long: the answer says when to ask once more. One tenant's queue is not another's.
func TestOverloadIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Settings{MaxConcurrent: 1, MaxQueued: 1, MaxWait: 30 * time.Second})
		for _, name := range []string{"a1", "a2", "a3", "b1"} {
			d.come(t.Context(), name, oneOf(name[:1]))
		}
		busy := func(name, says string) {
			t.Helper()
			err := d.err(name)
			if core.KindOf(err) != core.ErrExhausted || core.RetryAfterOf(err) < time.Second || core.RetryAfterOf(err) > time.Minute ||
				!strings.Contains(err.Error(), says) || !strings.Contains(core.HintOf(err), "try again in ") {
				t.Errorf("%s: %v, after %s", name, err, core.RetryAfterOf(err))
			}
		}
		busy("a3", "1 runs wait for a place already")
		if err := errors.Join(d.err("a2"), d.err("b1")); err != nil {
			t.Errorf("refused as well: %v", err)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		busy("a2", "no place became free within 30s")
		busy("b1", "no place became free within 30s")
		d.leaves("a1")
		d.come(t.Context(), "a4", oneOf("a"))
		d.wants("a1", "a4")
	})
}

// Whoever gives up leaves the queue at once, or gives back what came at the same moment.
func TestWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Settings{MaxConcurrent: 1, MaxQueued: 2})
		ctx, cancel := context.WithCancel(t.Context())
		d.come(t.Context(), "a1", oneOf("a"))
		d.come(ctx, "a2", oneOf("a"))
		d.come(t.Context(), "a3", oneOf("a"))
		cancel()
		synctest.Wait()
		if !errors.Is(d.err("a2"), core.ErrCancelled) {
			t.Errorf("got %v", d.err("a2"))
		}
		d.come(t.Context(), "a4", oneOf("a")) // there is room in the queue again
		d.leaves("a1")
		d.leaves("a3")
		d.wants("a1", "a3", "a4")
		d.come(ctx, "late", oneOf("a"))
		if !errors.Is(d.err("late"), core.ErrCancelled) {
			t.Errorf("got %v", d.err("late"))
		}
	})
}

func TestABoxThatNeverFits(t *testing.T) {
	d := newDesk(t, Settings{MaxConcurrent: 1, MaxQueued: 9, MaxMemory: gib})
	_, err := d.enter(t.Context(), claim{tenant: "a", memory: gib + 1}, nil)
	if core.KindOf(err) != core.ErrExhausted || core.RetryAfterOf(err) != 0 || len(d.tenants) != 0 {
		t.Errorf("got %v after %s, left %v", err, core.RetryAfterOf(err), d.tenants)
	}
}

// A box counts until it is gone, also one that another server made; the run only as long as it goes on.
func TestABoxCountsUntilItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Settings{MaxConcurrent: 1, MaxQueued: 9, MaxWait: time.Hour, Limits: core.Limits{MemoryBytes: gib}}
		service := New(Ports{Now: time.Now}, s)
		d := newDesk(t, s)
		d.admission = service.admission
		d.come(t.Context(), "1", oneOf("a"))
		d.tickets["1"].follow(service.boxes, "box1")
		d.leaves("1")
		for range 2 {
			service.adopt(claim{tenant: "b", backend: "docker", kind: claimBox}, "box2").release()
		}
		if got, want := d.inUse(), (amounts{boxes: 2, memory: 2 * gib}); got != want {
			t.Errorf("in use are %+v, want %+v", got, want)
		}
		service.boxes.forget("box1")
		service.boxes.forget("box2")
		service.boxes.forget("box2")
		if d.inUse() != (amounts{}) {
			t.Errorf("in use are %+v", d.inUse())
		}
	})
}
