package runner

import (
	"fmt"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/core"
)

// job is what runs: a program, or a piece of code in the lasting interpreter.
type job struct {
	pid     int
	ended   <-chan end
	lasting *python.Lasting // nil for a program
	code    *codeFile       // nil if there is none
	note    string          // for the record
}

// end is how it ended.
type end struct {
	status syscall.WaitStatus
	answer *python.Answer // nil unless a piece of code ended and its interpreter goes on
}

func programJob(process python.Process) *job {
	ended := make(chan end, 1)
	go func() { ended <- end{status: <-process.Status} }()
	return &job{pid: process.PID, ended: ended}
}

// within waits for its end.
func (j *job) within(patience time.Duration) (e end, ended bool) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case e := <-j.ended:
		return e, true
	case <-limit.C:
		return end{}, false
	}
}

// addTo adds what the interpreter has said to an exit.
func (e end) addTo(exit *core.Exit) {
	a := e.answer
	if a == nil {
		return
	}
	exit.Code, exit.Displays = a.Code, a.Displays
	exit.Warnings = append(exit.Warnings, a.Warnings...)
	if a.Interrupted {
		exit.Signal = "SIGINT"
	}
	if a.Dropped > 0 {
		exit.Warnings = append(exit.Warnings, fmt.Sprintf("%d displayed values were too many or too large and are not shown", a.Dropped))
	}
}
