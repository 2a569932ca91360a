package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// underway is a run from its start to its record. It does not depend on the call that asked for it: that may
// wait to the end, or go on without it.
type underway struct {
	id     string
	owner  string
	cancel context.CancelFunc
	done   chan struct{} // closed once record and err are set
	begun  chan struct{} // closed once the program has started, or will not

	mu       sync.Mutex
	progress func(core.Progress) // nil once nobody waits
	guest    execution.Guest     // while the program runs
	inBox    string              // its id there: another for each time that it runs
	run      core.Run
	settled  bool // begun is closed
	detached bool // it outlives its call, so that the store is to know of its end before anybody does

	record core.Record
	err    error
}

// tell hands progress to the call that waits, if one does.
func (u *underway) tell(p core.Progress) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.progress != nil {
		u.progress(p)
	}
}

// leave ends the reports to the call.
func (u *underway) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.progress = nil
}

// begin says that the program runs in a box from now on, by that id.
func (u *underway) begin(guest execution.Guest, backend, box, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.guest, u.run.Backend, u.run.Box, u.inBox = guest, backend, box, id
	if !u.settled {
		u.settled = true
		close(u.begun)
	}
}

// into says in which session the program runs.
func (u *underway) into(session string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.run.Session = session
}

// outcome is the run as it ends; nobody who waits is told yet. detached says that somebody may come back for it.
func (u *underway) outcome(record core.Record, err error, now time.Time) (run core.Run, detached bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	run = u.run
	run.State, run.Ended, run.Record, run.Failure = core.RunEnded, now, record, core.FailureOf(err)
	return run, u.detached
}

// end tells those who wait, once.
func (u *underway) end(record core.Record, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.record, u.err, u.guest = record, err, nil
	if !u.settled {
		u.settled = true
		close(u.begun)
	}
	close(u.done)
}

// detach says that the run outlives its call.
func (u *underway) detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached = true
}

// snapshot is what is known of it now.
func (u *underway) snapshot() (core.Run, execution.Guest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.run, u.guest
}

// output is a piece of what the program has written; nothing before it has begun to.
func (u *underway) output(ctx context.Context, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	u.mu.Lock()
	guest, id := u.guest, u.inBox
	u.mu.Unlock()
	if guest == nil {
		return core.OutputPiece{Offset: offset}, nil
	}
	piece, err := guest.Output(ctx, id, stream, offset, limit)
	if errors.Is(err, core.ErrNotFound) { // it is on its way to its box
		return core.OutputPiece{Offset: offset}, nil
	}
	return piece, err
}

// ledger knows every run: those under way, and, through the store, those that ended.
type ledger struct {
	ports Ports

	mu   sync.Mutex
	live map[string]*underway
}

func newLedger(ports Ports) *ledger { return &ledger{ports: ports, live: map[string]*underway{}} }

// open begins a run that ends with ctx.
func (l *ledger) open(ctx context.Context, j job, session string, progress func(core.Progress)) (*underway, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	u := &underway{
		id: l.ports.NewID(), owner: j.tenant, cancel: cancel, progress: progress,
		done: make(chan struct{}), begun: make(chan struct{}),
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
func (l *ledger) close(ctx context.Context, u *underway, record core.Record, err error) {
	run, detached := u.outcome(record, err, l.ports.Now())
	if !detached {
		u.end(record, err)
	}
	u.cancel()
	keeping, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	if err := l.ports.Runs.Put(keeping, run); err != nil {
		l.ports.Log.Warn("a run's result could not be kept", "run", u.id, "error", err)
	}
	if detached {
		u.end(record, err)
	}
	l.forget(u)
}

func (l *ledger) forget(u *underway) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, u.id)
}

// keepLimit bounds one write to the store.
const keepLimit = 5 * time.Second

// keep has the store know of a run that goes on after its call. It must be known before the caller hears of it.
func (l *ledger) keep(ctx context.Context, u *underway) error {
	u.detach()
	run, _ := u.snapshot()
	err := l.ports.Runs.Put(ctx, run)
	if errors.Is(err, core.ErrInvalid) { // it ended just now
		return nil
	}
	return err
}

// find returns a run under way, or nil.
func (l *ledger) find(owner, id string) *underway {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.live[id]; u != nil && u.owner == owner {
		return u
	}
	return nil
}

// cancelSession cancels the runs of a session that is about to go.
func (l *ledger) cancelSession(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.live {
		if run, _ := u.snapshot(); run.Session == session {
			u.cancel()
		}
	}
}
