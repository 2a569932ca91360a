// Package watch enforces a box's limits of memory and processes where its engine cannot.
//
// A Watcher looks at the whole box again and again while a program runs, the more often the nearer it is to
// a limit, and says when one is crossed. It ends nothing itself. What holds exactly, what only within the
// time between two looks, and what is not seen, is in docs/decisions/0012.
package watch

import (
	"fmt"
	"time"
)

// Bounds are the limits of a box. A zero field is none.
type Bounds struct {
	Memory    int64 // bytes
	Processes int64 // processes and threads, without the agent's own
}

// Breach is a limit that was crossed.
type Breach struct {
	Memory  bool // else it was the limit of processes
	Message string
}

// usage is what a box uses.
type usage struct {
	memory int64 // bytes
	tasks  int64 // processes and threads
}

// meter measures the box. It may stop measuring once a bound is crossed for certain.
type meter func(Bounds) usage

// Watcher watches one box.
type Watcher struct {
	bounds Bounds
	meter  meter
}

// New returns a watcher. Without bounds it never sees a breach.
func New(bounds Bounds) *Watcher {
	if bounds == (Bounds{}) {
		return &Watcher{}
	}
	return &Watcher{bounds: bounds, meter: newMeter()}
}

// Start begins to watch. A breach comes on the channel, once, unless stop is called before.
func (w *Watcher) Start() (breaches <-chan Breach, stop func()) {
	if w == nil || w.bounds == (Bounds{}) {
		return nil, func() {}
	}
	found, done := make(chan Breach, 1), make(chan struct{})
	go w.watch(found, done)
	return found, func() { close(done) }
}

func (w *Watcher) watch(found chan<- Breach, done <-chan struct{}) {
	for {
		began := time.Now()
		now := w.meter(w.bounds)
		if breach, over := w.bounds.judge(now); over {
			found <- breach
			return
		}
		select {
		case <-done:
			return
		case <-time.After(w.bounds.pause(now, time.Since(began))):
		}
	}
}

func (b Bounds) judge(now usage) (Breach, bool) {
	switch {
	case b.Memory > 0 && now.memory > b.Memory:
		return Breach{Memory: true, Message: fmt.Sprintf(
			"the program was killed because the box used %d MiB of memory, its limit is %d MiB", now.memory>>20, b.Memory>>20)}, true
	case b.Processes > 0 && now.tasks > b.Processes:
		return Breach{Message: fmt.Sprintf(
			"the program was killed because the box had %d processes and threads, its limit is %d", now.tasks, b.Processes)}, true
	}
	return Breach{}, false
}

const (
	shortest = 2 * time.Millisecond
	longest  = 50 * time.Millisecond
	// growth is faster than what programs have been seen to do, bytes a nanosecond.
	growth = 4
	// birth is the time in which a new process or thread can come.
	birth = 100 * time.Microsecond
	// idle is how much longer than a look the pause after it is, at least: looks must not take the
	// program's processor away.
	idle = 4
)

// pause is until when the limits cannot have been reached yet, as far as one can wait.
func (b Bounds) pause(now usage, look time.Duration) time.Duration {
	pause := longest
	if b.Memory > 0 {
		pause = min(pause, time.Duration((b.Memory-now.memory)/growth))
	}
	if b.Processes > 0 {
		pause = min(pause, time.Duration(b.Processes-now.tasks)*birth)
	}
	return max(pause, shortest, min(idle*look, longest))
}
