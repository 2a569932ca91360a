package runner

import (
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/core"
)

// startCell runs code in the lasting interpreter, which is made if there is none. One that ends before it has
// taken the code is made anew.
func (r *Runner) startCell(spec core.RunSpec, dir string, fds [3]int) (*job, error) {
	cell := python.Cell{PythonPath: spec.PythonPath, Source: spec.Code, Stdio: fds}
	if spec.Dir != "" {
		cell.Dir = dir
	}
	lasting, err := r.needLasting(spec)
	if err != nil {
		return nil, err
	}
	answers, err := lasting.Run(cell)
	if core.KindOf(err) == core.ErrUnavailable {
		r.endLasting()
		if lasting, err = r.needLasting(spec); err == nil {
			answers, err = lasting.Run(cell)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.cellJob(lasting, answers), nil
}

func (r *Runner) cellJob(lasting *python.Lasting, answers <-chan python.Answer) *job {
	ended := make(chan end, 1)
	go func() {
		answer := <-answers
		if answer.Lost {
			ended <- end{status: answer.Status}
			return
		}
		ended <- end{answer: &answer}
	}()
	job := &job{pid: lasting.PID(), lasting: lasting, ended: ended}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		job.note = "the session's interpreter had ended since the run before: this code began without what that knew"
	}
	return job
}

// needLasting returns the lasting interpreter. A new one has the environment of this run.
func (r *Runner) needLasting(spec core.RunSpec) (*python.Lasting, error) {
	if lasting := r.currentLasting(); lasting != nil && lasting.Alive() {
		return lasting, nil
	}
	lasting, err := r.interpreter(spec).Lasting(r.program(spec, core.GuestWork, [3]int{}))
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = r.lost || r.lasting != nil
	r.lasting = lasting
	return lasting, nil
}

func (r *Runner) currentLasting() *python.Lasting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lasting
}

// loseLasting reports, once, that a lasting interpreter has ended.
func (r *Runner) loseLasting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lasting != nil && !r.lasting.Alive() {
		r.lasting, r.lost = nil, true
	}
	lost := r.lost
	r.lost = false
	return lost
}

// endLasting ends the lasting interpreter and waits until it is gone.
func (r *Runner) endLasting() {
	lasting := r.currentLasting()
	if lasting == nil {
		return
	}
	lasting.End()
	select {
	case <-lasting.Gone():
	case <-time.After(deathTime):
	}
}

// interpreters are the processes that are the agent's own.
func (r *Runner) interpreters() []int {
	pids := append(r.Plain.PIDs(), r.Loaded.PIDs()...)
	if lasting := r.currentLasting(); lasting != nil && lasting.Alive() {
		pids = append(pids, lasting.PID())
	}
	return pids
}

// Variables describes what the lasting interpreter remembers; nothing if there is none.
func (r *Runner) Variables() ([]core.Variable, error) {
	lasting := r.currentLasting()
	if lasting == nil || !lasting.Alive() {
		return nil, nil
	}
	return lasting.Variables()
}
