package runner

import (
	"syscall"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fault"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
)

// stop ends a run before its time, and returns how its program ended. A session loses what this run has
// started; from a limit of the box that was crossed nothing is spared.
func (r *Runner) stop(run *Run, job *job, before before, why ending) (end, error) {
	inPython := len(run.spec.Argv) == 0
	switch {
	case why.crossed():
		return r.stopAll(job, false)
	case !run.keeps():
		return r.stopAll(job, inPython)
	case job.lasting != nil:
		return r.stopCell(job, before)
	}
	e, ended := end{}, false
	if inPython {
		e, ended = job.flush()
	}
	err := r.hunt(before)
	if !ended {
		e = job.death()
	}
	return e, err
}

func (r *Runner) stopAll(job *job, flush bool) (end, error) {
	if flush {
		if e, ended := job.flush(); ended {
			return e, r.killAll()
		}
	}
	err := r.killAll()
	return job.death(), err
}

// stopCell interrupts a piece of code, again and again: what it waits for may have to be ended first, and what
// it does to end may come to wait for what has been ended. If it does not end in time, its interpreter is ended.
func (r *Runner) stopCell(job *job, before before) (end, error) {
	for range mercy / insistence {
		job.lasting.Interrupt()
		e, ended := job.within(insistence)
		err := r.hunt(before)
		if ended {
			return e, err
		}
	}
	_, _ = job.flush()
	job.lasting.End()
	return job.death(), r.hunt(before) // what it has started meanwhile
}

// hunt kills what has been started since. If that is quicker, nothing is spared.
func (r *Runner) hunt(before before) error {
	if err := r.Sweeper.Hunt(before.living, r.interpreters()...); err != nil {
		return r.killAll()
	}
	return nil
}

// flush asks a Python program to write out what it has printed, and does not wait for one that cannot.
func (j *job) flush() (e end, ended bool) {
	python.Flush(j.pid)
	return j.within(flushTime)
}

// death waits for the end of what has been killed.
func (j *job) death() end {
	e, ended := j.within(deathTime)
	if !ended {
		e.status = syscall.WaitStatus(syscall.SIGKILL)
	}
	return e
}

// survivors are the outputs of runs that have ended, to which something that they started may still write.
type survivors struct{ streams []*stdio }

// maxSurvivors bounds them. What writes to the oldest gets an error then, as from any reader that is gone.
const maxSurvivors = 32

func (s *survivors) add(streams *stdio) {
	if !streams.release() {
		return
	}
	s.streams = append(s.streams, streams)
	if len(s.streams) > maxSurvivors {
		s.streams[0].close()
		s.streams = s.streams[1:]
	}
}

// vigil watches the limits of a box between two runs, while something in it goes on.
type vigil struct {
	quit, done chan struct{}
	note       string // once done is closed: what was crossed
}

// keepWatch begins one if there is a need. It is called by whoever has the token.
func (r *Runner) keepWatch() {
	if !r.Watcher.Watches() || !r.busy() {
		return
	}
	v := &vigil{quit: make(chan struct{}), done: make(chan struct{})}
	r.vigil = v
	breaches, stop := r.Watcher.Start()
	go func() {
		defer close(v.done)
		defer stop()
		select {
		case breach := <-breaches:
			v.note = breach.Message
			_ = fault.Contain(r.killAll) // the next run finds what is left
		case <-v.quit:
		}
	}()
}

// endVigil ends it, and returns what was crossed meanwhile.
func (r *Runner) endVigil() (note string) {
	if r.vigil == nil {
		return ""
	}
	close(r.vigil.quit)
	<-r.vigil.done
	note, r.vigil = r.vigil.note, nil
	return note
}

// busy reports whether there is anything that could grow: a process that was left, or a thread of the lasting
// interpreter's.
func (r *Runner) busy() bool {
	if count, certain := r.Sweeper.Others(r.interpreters()...); count > 0 || !certain {
		return true
	}
	lasting := r.currentLasting()
	return lasting != nil && lasting.Threads() > 1
}
