package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// line is a queue of callers for something that one of them may have at a time, in the order in which they came.
type line struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan struct{} // closed when it is that caller's turn
}

// lineRetry is when a caller that found no place may try once more. Nobody knows how long the calls before it take.
const lineRetry = 5 * time.Second

// enter waits for the caller's turn. moved tells how many are before it, whenever that changes; with more than
// most waiting it refuses.
func (l *line) enter(ctx context.Context, most int, moved func(before int)) (leave func(), err error) {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return l.leave, nil
	}
	if len(l.waiting) >= most {
		l.mu.Unlock()
		return nil, core.Errorf(core.ErrExhausted, "%d calls wait for this sandbox already", most).
			WithHint("wait for their answers, or use another sandbox").WithRetryAfter(lineRetry)
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	before := len(l.waiting)
	l.mu.Unlock()
	moved(before)
	select {
	case <-turn:
		return l.leave, nil
	case <-ctx.Done():
		l.giveUp(turn)
		return nil, cancelled(ctx)
	}
}

// leave lets the next caller in.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy = false
		return
	}
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
}

// giveUp takes a caller out of the queue. One whose turn came at the same moment hands it on.
func (l *line) giveUp(turn chan struct{}) {
	l.mu.Lock()
	at := slices.Index(l.waiting, turn)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	l.mu.Unlock()
	if at < 0 {
		l.leave()
	}
}

// state tells whether somebody has it, and how many wait.
func (l *line) state() (busy bool, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy, len(l.waiting)
}
