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

	keeping sync.Mutex // one puts it at a time

	mu       sync.Mutex
	progress func(core.Progress) // nil once nobody waits
	guest    execution.Guest     // while the program runs
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

// begin says that the program runs in a box since then, by that id. detached says that the store should know.
func (u *underway) begin(guest execution.Guest, backend, box, id string, at time.Time) (detached bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.guest, u.run.Backend, u.run.Box, u.run.InBox, u.run.Begun = guest, backend, box, id, at
	if !u.settled {
		u.settled = true
		close(u.begun)
	}
	return u.detached
}

// again says that the program is to run once more: what its box tells of it until then is not its end.
func (u *underway) again() (detached bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.run.Box = ""
	return u.detached
}

// into says in which session the program runs.
func (u *underway) into(session string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.run.Session = session
}

// settle sets how the run ended; nobody who waits is told yet. detached says that somebody may come back for it.
func (u *underway) settle(state core.RunState, record core.Record, err error, now time.Time) (detached bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.run.State, u.run.Ended, u.run.Record, u.run.Failure = state, now, record, core.FailureOf(err)
	return u.detached
}

// end tells those who wait, once: who sees that the run has begun sees that it is over, too.
func (u *underway) end(record core.Record, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.record, u.err, u.guest = record, err, nil
	close(u.done)
	if !u.settled {
		u.settled = true
		close(u.begun)
	}
}

// over says that record and err are set.
func (u *underway) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// detach says that the run outlives its call.
func (u *underway) detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached = true
}

// snapshot is what is known of it now.
func (u *underway) snapshot() core.Run {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.run
}

// program is how the running program is reached: nil before it has begun, and once it has ended.
func (u *underway) program() (guest execution.Guest, inBox string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.guest, u.run.InBox
}

// output is a piece of what the program has written; nothing before it has begun to.
func (u *underway) output(ctx context.Context, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	guest, id := u.program()
	if guest == nil {
		return core.OutputPiece{Offset: offset}, nil
	}
	piece, err := guest.Output(ctx, id, stream, offset, limit)
	if errors.Is(err, core.ErrNotFound) { // it is on its way to its box
		return core.OutputPiece{Offset: offset}, nil
	}
	return piece, err
}
