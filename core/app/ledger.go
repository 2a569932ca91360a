package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// ledger knows every run: those under way and, through the store, those that ended.
type ledger struct {
	ports Ports

	mu   sync.Mutex
	live map[string]*underway // under way, or ended but not kept yet
}

func newLedger(ports Ports) *ledger { return &ledger{ports: ports, live: map[string]*underway{}} }

// open begins a run that ends with ctx.
func (l *ledger) open(ctx context.Context, j job, session string, progress func(core.Progress)) (*underway, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	u := &underway{
		id: l.ports.NewID(), owner: j.tenant, cancel: cancel, progress: progress,
		done: make(chan struct{}), begun: make(chan struct{}), detached: j.background,
	}
	u.run = core.Run{
		ID: u.id, Owner: j.tenant, Session: session, Server: l.ports.Server, State: core.RunUnderWay,
		Language: string(j.language), Summary: j.summary(), Started: l.ports.Now(), Timeout: j.spec.Timeout,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[u.id] = u
	return u, ctx
}

// close keeps how a run ended, and tells those who wait: first the store, if somebody may come back for the
// result, or else first the call.
func (l *ledger) close(ctx context.Context, u *underway, state core.RunState, record core.Record, err error) {
	detached := u.settle(state, record, err, l.ports.Now())
	if !detached {
		u.end(record, err)
	}
	u.cancel()
	if err := l.save(ctx, u); err != nil {
		l.ports.Log.Warn("a run's result could not be kept; the next sweep tries again", "run", u.id, "error", err)
		l.shed()
	}
	if detached {
		u.end(record, err)
	}
}

// save has the store keep a run that ended. Until that succeeds, it is answered from here.
func (l *ledger) save(ctx context.Context, u *underway) error {
	run := u.snapshot()
	keeping, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	err := safely(l.ports.Log, "kept a run's result", func() error { return l.ports.Runs.Put(keeping, run) })
	if errors.Is(err, core.ErrInvalid) { // it never will: the run is somebody else's by now
		l.ports.Log.Warn("the store refuses a run's result", "run", u.id, "error", err)
		err = nil
	}
	if err == nil {
		l.forget(u)
	}
	return err
}

// saveAll keeps what could not be kept before.
func (l *ledger) saveAll(ctx context.Context) {
	for _, u := range l.unsaved() {
		if err := l.save(ctx, u); err != nil {
			return
		}
	}
}

// mostUnsaved bounds the results that wait for a store that takes none.
const mostUnsaved = 200

// shed forgets the oldest results that are too many.
func (l *ledger) shed() {
	list := l.unsaved()
	for _, u := range list[min(mostUnsaved, len(list)):] {
		l.ports.Log.Warn("a run's result was lost", "run", u.id)
		l.forget(u)
	}
}

// unsaved are the runs that ended and are not in the store, the latest first.
func (l *ledger) unsaved() []*underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := map[*underway]time.Time{}
	for _, u := range l.live {
		if run := u.snapshot(); run.State != core.RunUnderWay {
			ended[u] = run.Ended
		}
	}
	return slices.SortedFunc(maps.Keys(ended), func(a, b *underway) int { return ended[b].Compare(ended[a]) })
}

func (l *ledger) forget(u *underway) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, u.id)
}

// keepLimit bounds one write to the store.
const keepLimit = 5 * time.Second

// begin says that a program runs. A server that comes after this one finds it by what the store knows.
func (l *ledger) begin(ctx context.Context, u *underway, guest execution.Guest, backend, box, id string) {
	if u.begin(guest, backend, box, id, l.ports.Now()) {
		l.note(ctx, u)
	}
}

// again says that a program is to run once more. A server that comes after this one must not take the end of the
// time before for its end.
func (l *ledger) again(ctx context.Context, u *underway) {
	if u.again() {
		l.note(ctx, u)
	}
}

// note has the store know how far a run is.
func (l *ledger) note(ctx context.Context, u *underway) {
	keeping, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	if err := l.keep(keeping, u); err != nil {
		l.ports.Log.Warn("how far a run is could not be kept", "run", u.id, "error", err)
	}
}

// keep has the store know of a run that goes on after its call. It must be known before the caller hears of it.
func (l *ledger) keep(ctx context.Context, u *underway) error {
	u.detach()
	u.keeping.Lock() // the latest is put last
	defer u.keeping.Unlock()
	run := u.snapshot()
	err := l.ports.Runs.Put(ctx, run)
	if errors.Is(err, core.ErrInvalid) { // it ended just now
		return nil
	}
	return err
}

// find returns a run that is under way or not kept yet, or nil.
func (l *ledger) find(owner, id string) *underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.live[id]; u != nil && u.owner == owner {
		return u
	}
	return nil
}

// inSession are the runs in a session.
func (l *ledger) inSession(session string) []*underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*underway
	for _, u := range l.live {
		if run := u.snapshot(); run.Session == session {
			list = append(list, u)
		}
	}
	return list
}

// endTime bounds how long a session's box stays for runs that are told to end: what they have printed so far is
// in it, and their code may end itself.
const endTime = 4 * time.Second

// endSession cancels the runs of a session that is about to go, and waits for their ends.
func (l *ledger) endSession(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	runs := l.inSession(session)
	for _, u := range runs {
		u.cancel()
	}
	for _, u := range runs {
		select {
		case <-u.done:
		case <-ctx.Done():
			return
		}
	}
}
