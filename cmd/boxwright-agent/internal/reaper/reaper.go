// Package reaper collects the exit statuses of all processes of a box, as its first process must,
// and hands each to whoever waits for it.
//
// It does not start or end processes. It is the only caller of wait4: a process that the agent starts
// must never be waited for by any other way, os/exec included.
package reaper

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// kept bounds the statuses that nobody has asked for yet. A pid is asked for within milliseconds of its
// start, but a fork bomb can end thousands of others before that.
const kept = 8192

// Reaper hands out exit statuses.
type Reaper struct {
	mu      sync.Mutex
	waiters map[int]chan syscall.WaitStatus
	early   map[int]early
	order   []int
	seq     uint64
	strays  uint64
}

type early struct {
	status syscall.WaitStatus
	seq    uint64
}

// Mark is a moment. Statuses from before it belong to other processes of the same number.
type Mark uint64

// Start begins to collect; it goes on for as long as the process lives.
func Start() *Reaper {
	r := &Reaper{waiters: map[int]chan syscall.WaitStatus{}, early: map[int]early{}}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		for range children {
			r.collect()
		}
	}()
	return r
}

// Mark returns the present moment, to be taken before a process is started.
func (r *Reaper) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Mark(r.seq)
}

// Wait returns a channel on which the status of the process that was started after since comes once.
func (r *Reaper) Wait(pid int, since Mark) <-chan syscall.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := make(chan syscall.WaitStatus, 1)
	if e, ok := r.early[pid]; ok && e.seq > uint64(since) {
		delete(r.early, pid)
		r.strays--
		status <- e.status
		return status
	}
	r.waiters[pid] = status
	return status
}

// Strays counts the processes that ended and that nobody waited for: orphans of the code's.
func (r *Reaper) Strays() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strays
}

// collect takes all statuses that are there: signals of the same number merge into one.
func (r *Reaper) collect() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r.deliver(pid, status)
	}
}

func (r *Reaper) deliver(pid int, status syscall.WaitStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	if waiter, ok := r.waiters[pid]; ok {
		delete(r.waiters, pid)
		waiter <- status
		return
	}
	r.strays++
	r.early[pid] = early{status: status, seq: r.seq}
	r.order = append(r.order, pid)
	if len(r.order) > kept {
		delete(r.early, r.order[0])
		r.order = r.order[1:]
	}
}
