package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/fault"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/watch"
	"github.com/boxwright/boxwright/core"
)

const (
	// flushTime is how long a program may take to write out what it has printed before it is killed.
	flushTime = 20 * time.Millisecond
	// deathTime is how long the status of a killed program may take.
	deathTime = 5 * time.Second
	// mercy is how long the code of a session has to end by KeyboardInterrupt, insistence how long until it gets
	// another one, and what it waits for is killed.
	mercy      = 1800 * time.Millisecond
	insistence = 300 * time.Millisecond
	// farewellTime is how long what a program leaves may take to end by itself.
	farewellTime = 250 * time.Millisecond
	// sourceFile is where a program finds its own source: outside the workspace, in a hidden folder.
	sourceFile = core.GuestTmp + "/.boxwright/main.py"
)

// cause is why a run ended.
type cause int

const (
	byItself cause = iota
	byTimeout
	byKill
	byMemory    // the watcher's limit
	byProcesses // the same
)

// conduct takes a run from its turn to its end.
func (r *Runner) conduct(run *Run) {
	select {
	case <-run.killed:
		run.exit = killedExit()
		close(run.done)
		return
	case <-r.turn:
	}
	run.exit, run.err = contain(func() (core.Exit, error) { return r.perform(run) }, r.killAll)
	close(run.done)
	_ = fault.Contain(func() error { // the next run reports what is wrong
		r.warmUp()
		r.keepWatch()
		return nil
	})
	r.turn <- struct{}{}
}

// contain has a mistake of the agent's end the run, and by clean all that it may have started, but not the box.
func contain(perform func() (core.Exit, error), clean func() error) (exit core.Exit, err error) {
	whole := false
	err = fault.Contain(func() error {
		exit, err = perform()
		whole = true
		return err
	})
	if !whole {
		err = errors.Join(err, fault.Contain(clean))
	}
	return exit, err
}

// killedExit is the end of a run that was killed before it began.
func killedExit() core.Exit {
	return core.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL", Cancelled: true}
}

// warmUp has the next run find an interpreter that waits, without making this run's caller wait for it.
func (r *Runner) warmUp() {
	_ = r.interpreter(core.RunSpec{}).Start() // the next run reports what is wrong
}

// interpreter leaves a run with packages of its own without preloads: those come from the image, and
// would take the place of the packages' own.
func (r *Runner) interpreter(spec core.RunSpec) *python.Warm {
	if len(spec.PythonPath) > 0 {
		return r.Plain
	}
	return r.Loaded
}

func (r *Runner) perform(run *Run) (core.Exit, error) {
	r.Workspace.Reclaim()
	dir, err := workingDir(run.spec.Dir)
	if err != nil {
		return core.Exit{}, err
	}
	if err := checkPackages(run.spec.PythonPath); err != nil {
		return core.Exit{}, err
	}
	streams, err := newStdio(run.spec.Stdin != nil || run.spec.OpenStdin)
	if err != nil {
		return core.Exit{}, err
	}
	noteBefore := r.endVigil()
	before := r.look(run.keeps())
	job, err := r.launch(run.spec, dir, streams.child)
	if err != nil {
		streams.close()
		return core.Exit{}, err
	}
	streams.start(run)
	end, why, err := r.await(run, job, before)
	job.code.remove()
	exit := exitOf(end.status, why.cause)
	exit.Duration = time.Since(before.at)
	end.addTo(&exit)
	switch {
	case why.cause != byItself || err != nil:
		streams.drain()
	case run.keeps():
		r.survivors.add(streams)
	default:
		exit.Warnings, err = r.clear(before.strays)
		streams.drain()
	}
	for _, note := range []string{noteBefore, job.note, why.note} {
		if note != "" {
			exit.Warnings = append(exit.Warnings, note)
		}
	}
	if err != nil {
		exit.Warnings = append(exit.Warnings, core.MessageOf(err))
	}
	exit.Stdout, exit.Stderr = output(run.captures[0]), output(run.captures[1])
	r.compare(&exit, before, why.cause)
	return exit, nil
}

// checkPackages has the host learn that packages are gone before the program does.
func checkPackages(folders []string) error {
	for _, folder := range folders {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return core.Errorf(core.ErrDependency, "the folder of packages %q is not there", folder)
		}
	}
	return nil
}

// workingDir resolves a run's folder and makes sure that it can be used.
func workingDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(core.GuestWork, dir)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", core.Errorf(core.ErrInvalid, "the working directory %q does not exist", dir)
	case err != nil || unix.Access(dir, unix.X_OK) != nil:
		return "", core.Errorf(core.ErrInvalid, "the working directory %q cannot be entered", dir).
			WithHint("if it is your own, run chmod u+rwx %q with the working directory %s", dir, core.GuestTmp)
	case !info.IsDir():
		return "", core.Errorf(core.ErrInvalid, "the working directory %q is not a folder", dir)
	}
	return filepath.Clean(dir), nil
}

func (r *Runner) launch(spec core.RunSpec, dir string, fds [3]int) (*job, error) {
	switch {
	case spec.Session:
		return r.startCell(spec, dir, fds)
	case len(spec.Argv) > 0:
		return r.startCommand(spec, dir, fds)
	}
	process, err := r.interpreter(spec).Launch(r.program(spec, dir, fds))
	if err != nil {
		return nil, err
	}
	return programJob(process), nil
}

func (r *Runner) program(spec core.RunSpec, dir string, fds [3]int) python.Program {
	return python.Program{
		File: sourceFile, Dir: dir, Work: core.GuestWork, Env: environment(r.Env, spec),
		PythonPath: spec.PythonPath, Source: spec.Code, Stdio: fds,
	}
}

// startCommand starts a program, for which its code lies in a file if it has any.
func (r *Runner) startCommand(spec core.RunSpec, dir string, fds [3]int) (*job, error) {
	code, argv, err := writeCode(spec, dir)
	if err != nil {
		return nil, err
	}
	process, err := command(r.Reaper, argv, dir, environment(r.Env, spec), fds)
	if err != nil {
		code.remove()
		return nil, err
	}
	job := programJob(process)
	job.code = code
	return job, nil
}

// ending is why a run ended, with what its record shall say about that.
type ending struct {
	cause cause
	note  string
}

// await returns how the program ended. Unless it ended by itself, nothing that it has started is alive then.
func (r *Runner) await(run *Run, job *job, before before) (end, ending, error) {
	breaches, stop := r.Watcher.Start()
	defer stop()
	var timeout <-chan time.Time
	if run.spec.Timeout > 0 {
		timer := time.NewTimer(run.spec.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	why := ending{}
	select {
	case e := <-job.ended:
		return e, why, nil
	case <-timeout:
		why.cause = byTimeout
	case <-run.killed:
		why.cause = byKill
	case breach := <-breaches:
		why = endingOf(breach)
	}
	e, err := r.stop(run, job, before, why)
	return e, why, err
}

func endingOf(breach watch.Breach) ending {
	if breach.Memory {
		return ending{byMemory, breach.Message}
	}
	return ending{byProcesses, breach.Message}
}

// crossed reports whether a limit of the box was crossed: then there is no time to lose.
func (e ending) crossed() bool { return e.cause == byMemory || e.cause == byProcesses }

// leftovers counts what the program has left running. What helps a program, such as the tracker of Python's
// multiprocessing, ends by itself a moment after it.
func (r *Runner) leftovers() (count int, certain bool) {
	for deadline := time.Now().Add(farewellTime); ; time.Sleep(farewellTime / 50) {
		count, certain = r.Sweeper.Others(r.interpreters()...)
		if count == 0 || time.Now().After(deadline) {
			return count, certain
		}
	}
}

// clear ends what the program has left running. It kills only if there is something: the interpreters
// that wait would have to be started anew.
func (r *Runner) clear(straysBefore uint64) (warnings []string, err error) {
	count, certain := r.leftovers()
	if count == 0 && certain && r.Reaper.Strays() == straysBefore {
		return nil, nil
	}
	switch {
	case count == 1:
		warnings = append(warnings, "a process was still running when the program ended, and was killed")
	case count > 1:
		warnings = append(warnings, fmt.Sprintf("%d processes were still running when the program ended, and were killed", count))
	}
	return warnings, r.killAll()
}

func (r *Runner) killAll() error {
	err := r.Sweeper.KillAll()
	r.Plain.Stop()
	r.Loaded.Stop()
	r.endLasting()
	return err
}

func exitOf(status syscall.WaitStatus, why cause) core.Exit {
	exit := core.Exit{TimedOut: why == byTimeout, Cancelled: why == byKill, OOMKilled: why == byMemory}
	if why != byItself && status.Signaled() && status.Signal() == python.FlushSignal {
		status = syscall.WaitStatus(syscall.SIGKILL) // ours too: a program that had dropped its handler
	}
	if status.Signaled() {
		exit.Code = 128 + int(status.Signal())
		if exit.Signal = unix.SignalName(status.Signal()); exit.Signal == "" {
			exit.Signal = fmt.Sprintf("SIG%d", status.Signal())
		}
		return exit
	}
	exit.Code = status.ExitStatus()
	return exit
}
