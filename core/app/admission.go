package app

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// claimKind says what a claim is for.
type claimKind int

const (
	claimRun  claimKind = iota // a box of its own, for one run
	claimBox                   // a box that stays, or in which no run goes on: a session's, an installer's
	claimCall                  // a run in a box that is there
)

// claim is what somebody needs before work may begin.
type claim struct {
	tenant  string
	backend string
	memory  int64 // bytes that the new box may use; of no meaning for a call
	kind    claimKind
	lasting bool  // the box stays until somebody ends it
	quota   Quota // of the tenant
}

// admit waits until the claim may have what it needs. Waiting is fair: tenants take turns, and each one's claims
// come in their order. queued, which may be nil, is told the place in the queue whenever it changes. When too
// many wait already or it takes too long the error is core.ErrExhausted and says when to ask once more.
func (s *Service) admit(ctx context.Context, c claim, queued func(position int)) (*ticket, error) {
	c.quota = s.quotaOf(ctx, c.tenant)
	return s.admission.enter(ctx, c, queued)
}

// answeredBy is the key of when a call has to have its answer.
type answeredBy struct{}

// inOneCall has claims wait no longer than a call may: with no run, nothing goes on in the background for its caller
// to come back to.
func (s *Service) inOneCall(ctx context.Context) context.Context {
	if s.settings.SyncLimit == 0 {
		return ctx
	}
	return context.WithValue(ctx, answeredBy{}, time.Now().Add(s.settings.SyncLimit))
}

// patienceOf is how long a claim may wait.
func (a *admission) patienceOf(ctx context.Context) time.Duration {
	if end, bound := ctx.Value(answeredBy{}).(time.Time); bound {
		return min(a.patient, max(0, time.Until(end)))
	}
	return a.patient
}

// ticket is the right to a run, a box or both, until it is given back.
type ticket struct {
	backend  string
	run, box func() // give their part back; only the first call counts
	kept     bool   // the box's part goes with the box
}

// release gives everything back, but for what follows a box.
func (t *ticket) release() {
	t.run()
	if !t.kept {
		t.box()
	}
}

// follow keeps the box's part until the box is gone: what is being removed still takes its room.
func (t *ticket) follow(b *boxes, id string) {
	t.kept = b.whenGone(t.backend, id, t.box)
}

// adopt counts what another server began, whatever the bounds: it is there.
func (s *Service) adopt(c claim, box string) *ticket {
	c.memory = s.settings.Limits.MemoryBytes
	t := s.admission.force(c)
	if c.kind != claimCall {
		t.follow(s.boxes, box) // if it is counted already, this ticket gives its part back
	}
	return t
}

// amounts are what is counted.
type amounts struct{ boxes, runs, memory int64 }

func (a *amounts) add(b amounts, sign int64) {
	a.boxes += sign * b.boxes
	a.runs += sign * b.runs
	a.memory += sign * b.memory
}

// isShort reports whether anything is lacking.
func (a amounts) isShort() bool { return a.boxes < 0 || a.memory < 0 }

// covers reports whether it is enough for other boxes.
func (a amounts) covers(b amounts) bool { return a.boxes >= b.boxes && a.memory >= b.memory }

func (c claim) amounts() (run, box amounts) {
	if c.kind != claimBox {
		run.runs = 1
	}
	if c.kind != claimCall {
		box = amounts{boxes: 1, memory: c.memory}
	}
	return run, box
}

// admission counts boxes, their memory and runs, and lets in whoever fits.
type admission struct {
	all     amounts // bounds of everything together; runs is that of each backend; 0 is none
	longest int     // claims of one tenant that may wait
	patient time.Duration
	now     func() time.Time

	mu      sync.Mutex
	used    amounts
	lasting amounts          // of used, what goes with boxes that stay
	runs    map[string]int64 // by backend
	tenants map[string]*party
	ring    []*party      // those with claims that wait; the first is next
	pace    time.Duration // how long a run took lately
}

// party is a tenant with something in use or waiting.
type party struct {
	name    string
	used    amounts
	lasting amounts // of these, what goes with boxes that stay
	waiting []*waiter
}

func newAdmission(s Settings, now func() time.Time) *admission {
	return &admission{
		all:     amounts{boxes: s.MaxBoxes, runs: int64(max(1, s.MaxConcurrent)), memory: s.MaxMemory},
		longest: s.MaxQueued, patient: s.MaxWait, now: now,
		runs: map[string]int64{}, tenants: map[string]*party{}, pace: time.Second,
	}
}

func (a *admission) enter(ctx context.Context, c claim, queued func(int)) (*ticket, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	w, err := a.join(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.granted:
		return a.ticket(w), nil
	default:
		return a.await(ctx, w, queued)
	}
}

// try lets a claim in if that can be at once.
func (a *admission) try(c claim) (*ticket, bool) {
	w, err := a.join(c)
	if err != nil || a.leave(w) {
		return nil, false
	}
	return a.ticket(w), true
}

// await stands in the queue.
func (a *admission) await(ctx context.Context, w *waiter, queued func(int)) (*ticket, error) {
	patience := a.patienceOf(ctx)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for told := 0; ; {
		if at := a.position(w); at > 0 && at != told && queued != nil {
			queued(at)
			told = at
		}
		select {
		case <-w.granted:
			return a.ticket(w), nil
		case <-w.moved:
		case <-timer.C:
			if a.leave(w) {
				return nil, a.refusal(w, "no place became free within %s", patience.Round(time.Second))
			}
		case <-ctx.Done():
			if !a.leave(w) {
				a.ticket(w).release()
			}
			return nil, cancelled(ctx)
		}
	}
}

// force lets a claim in at once.
func (a *admission) force(c claim) *ticket {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &waiter{claim: c, party: a.partyOf(c.tenant)}
	a.book(w)
	return a.ticket(w)
}

func (a *admission) ticket(w *waiter) *ticket {
	since := a.now()
	run, box := w.amounts()
	return &ticket{
		backend: w.backend,
		run:     sync.OnceFunc(func() { a.free(w, run, a.now().Sub(since)) }),
		box:     sync.OnceFunc(func() { a.free(w, box, 0) }),
	}
}

// free gives something back, and lets in who fits now.
func (a *admission) free(w *waiter, part amounts, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(w, part, -1)
	if part.runs > 0 {
		a.pace = (7*a.pace + took) / 8
	}
	a.dispatch()
	a.forget(w.party)
}

// inUse is what is taken now.
func (a *admission) inUse() amounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// usedBy is what a tenant has now.
func (a *admission) usedBy(tenant string) amounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.tenants[tenant]; p != nil {
		return p.used
	}
	return amounts{}
}

// refusal says when to ask once more: when as many runs have ended as are before this one, as far as one can know.
func (a *admission) refusal(w *waiter, format string, args ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := 1
	for _, p := range a.ring {
		waiting += len(p.waiting)
	}
	seconds := a.pace.Seconds() * float64(waiting) / float64(max(1, a.runs[w.backend]))
	after := time.Duration(math.Ceil(min(max(seconds, leastRetry), mostRetry))) * time.Second
	if own := a.fullOf(w); own.quota != "" {
		return errFull(own, "").WithHint("try again in %g seconds", after.Seconds()).WithRetryAfter(after)
	}
	if a.isHeld(w) {
		return errHeld(w.party.lasting.boxes)
	}
	return core.Errorf(core.ErrExhausted, "the server is busy: "+format, args...).
		WithHint("try again in %g seconds", after.Seconds()).WithRetryAfter(after)
}

// errHeld is the error of a claim that only the end of a sandbox makes room for; own is how many the caller has. When
// one ends nobody knows, but that it may at any time.
func errHeld(own int64) error {
	held := core.Errorf(core.ErrExhausted, "the server is busy: sandboxes hold all of its places").WithRetryAfter(mostRetry * time.Second)
	if own > 0 {
		return held.WithHint("end one that you do not need with sandbox_stop; list_sandboxes tells which there are")
	}
	return held.WithHint("they are other users', and end when they are idle: try again in %d seconds", mostRetry)
}

// When a refused caller is told to come back, in seconds.
const (
	leastRetry = 1
	mostRetry  = 60
)
