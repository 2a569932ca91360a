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

// meter measures a box. A nil function is for what the kernel counts by itself.
type meter struct {
	memory func(enough int64) int64 // bytes; more than enough need not be exact
	tasks  func(enough int64) int64 // processes and threads
}

// Watcher watches one box.
type Watcher struct {
	bounds Bounds
	// meter makes one for each Start: a look that is under way when a program's watch is stopped may last into
	// the next one's, and what a meter remembers is not for two at a time.
	meter func() meter
}

// New returns a watcher. Without bounds it never sees a breach.
func New(bounds Bounds) *Watcher {
	if bounds == (Bounds{}) {
		return &Watcher{}
	}
	return &Watcher{bounds: bounds, meter: func() meter { return newMeter(bounds) }}
}

// Watches reports whether there is anything to watch.
func (w *Watcher) Watches() bool { return w != nil && w.meter != nil }

// Start begins to watch. Breaches come on the channel until stop is called.
func (w *Watcher) Start() (breaches <-chan Breach, stop func()) {
	if !w.Watches() {
		return nil, func() {}
	}
	meter := w.meter()
	found, done := make(chan Breach, 2), make(chan struct{})
	// Each on its own: to measure memory exactly can mean to wait for a lock of a process that does not get
	// its turn, in a crowd that only the other one would see.
	if w.bounds.Memory > 0 && meter.memory != nil {
		go watch(meter.memory, w.bounds.Memory, growth, done, func(now int64) { found <- tooMuch(now, w.bounds.Memory) })
	}
	if w.bounds.Processes > 0 && meter.tasks != nil {
		go watch(meter.tasks, w.bounds.Processes, births, done, func(now int64) { found <- tooMany(now, w.bounds.Processes) })
	}
	return found, func() { close(done) }
}

func tooMuch(now, bound int64) Breach {
	return Breach{Memory: true, Message: fmt.Sprintf(
		"the program was killed because the box used %d MiB of memory; its limit is %d MiB", now>>20, bound>>20)}
}

func tooMany(now, bound int64) Breach {
	return Breach{Message: fmt.Sprintf(
		"the program was killed because the box had %d processes and threads; its limit is %d", now, bound)}
}

// watch measures until the bound is crossed or done is closed. Nothing grows by more than rate in a
// millisecond, or hardly anything.
func watch(measure func(int64) int64, bound, rate int64, done <-chan struct{}, crossed func(int64)) {
	for {
		began := time.Now()
		now := measure(bound)
		if now > bound {
			crossed(now)
			return
		}
		select {
		case <-done:
			return
		case <-time.After(pause(bound-now, rate, time.Since(began))):
		}
	}
}

const (
	shortest = 2 * time.Millisecond
	longest  = 50 * time.Millisecond
	growth   = 4 << 20 // bytes in a millisecond
	births   = 10      // processes and threads in a millisecond
	// idle is how much longer than a look the pause after it is, at least: looks must not take the
	// program's processor away.
	idle = 4
)

// pause is until when the bound cannot have been reached yet, as far as one can wait.
func pause(room, rate int64, look time.Duration) time.Duration {
	earliest := longest
	if room/rate < longest.Milliseconds() {
		earliest = time.Duration(room) * time.Millisecond / time.Duration(rate)
	}
	return max(earliest, shortest, min(idle*look, longest))
}
