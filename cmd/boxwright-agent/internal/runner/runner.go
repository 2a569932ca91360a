// Package runner runs one program at a time in the box and tells how it ended.
//
// A run is not bound to the stream on which it was asked for: it is started, ends by itself, by its
// timeout or by Kill, and its exit stays for a while. Between two runs nothing of the first is alive, unless
// it is a session's: then that is there to stay what it has not itself ended, and the interpreter that its
// code runs in.
// The package knows no protocol.
package runner

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/capture"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/python"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/reaper"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/sweep"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/watch"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/workspace"
	"github.com/boxwright/boxwright/core"
)

const (
	keptRuns  = 8        // that have ended
	maxRuns   = 64       // that have not
	keptSpill = 64 << 20 // bytes, of all but the newest
	liveSize  = 64 << 10
)

// Config is what a runner needs.
type Config struct {
	Reaper    *reaper.Reaper
	Sweeper   *sweep.Sweeper
	Watcher   *watch.Watcher // nil leaves all limits to the engine
	Workspace *workspace.Workspace
	Plain     *python.Warm // has nothing loaded
	Loaded    *python.Warm // has the preloads; may be the same
	Env       map[string]string
}

// Runner runs programs.
type Runner struct {
	Config
	turn      chan struct{} // holds one token while no program runs
	survivors survivors     // these two belong to whoever has the token
	vigil     *vigil

	mu      sync.Mutex
	runs    map[string]*Run
	order   []*Run          // the oldest first
	lasting *python.Lasting // nil if there is none
	lost    bool            // one has ended, and nobody has been told
}

// Run is one program.
type Run struct {
	spec     core.RunSpec
	captures [2]*capture.Capture
	live     [2]*capture.Live // nil unless asked for
	input    *input           // nil unless its stdin is open

	kill    sync.Once
	killed  chan struct{}
	done    chan struct{}
	started bool // guarded by the runner's lock

	exit core.Exit // these two once done is closed
	err  error
}

// New returns a runner.
func New(config Config) *Runner {
	r := &Runner{Config: config, turn: make(chan struct{}, 1), runs: map[string]*Run{}}
	r.turn <- struct{}{}
	return r
}

// Begin reserves the run's id, so that it can be killed from now on. Either Start or Abandon follows.
func (r *Runner) Begin(spec core.RunSpec) (*Run, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	run := &Run{spec: spec, killed: make(chan struct{}), done: make(chan struct{})}
	for i := range run.captures {
		if spec.Stream {
			run.live[i] = capture.NewLive(liveSize)
		}
		run.captures[i] = capture.New(limits(spec.Output), run.live[i])
	}
	if spec.OpenStdin {
		run.input = newInput()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.runs[spec.ID]; ok {
		return nil, core.Errorf(core.ErrInvalid, "there is a run with this id already")
	}
	r.forget()
	if len(r.order) >= maxRuns {
		return nil, core.Errorf(core.ErrExhausted, "%d runs wait in this box already", maxRuns)
	}
	r.runs[spec.ID] = run
	r.order = append(r.order, run)
	return run, nil
}

// forget needs the lock. It drops the oldest runs that ended, and the oldest spilled output.
func (r *Runner) forget() {
	ended, spilled := 0, int64(0)
	for i, run := range slices.Backward(r.order) {
		if !run.ended() {
			continue
		}
		ended++
		for _, c := range run.captures {
			spilled += c.Result().Spilled
		}
		if spilled > keptSpill && ended > 1 || ended > keptRuns {
			run.forgetOutput()
		}
		if ended > keptRuns {
			delete(r.runs, run.spec.ID)
			r.order = slices.Delete(r.order, i, i+1)
		}
	}
}

func (run *Run) forgetOutput() {
	for _, c := range run.captures {
		c.Forget()
	}
}

// Abandon gives up a run that was not started. Whoever waits for it already learns that there is none.
func (r *Runner) Abandon(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.started || run.ended() {
		return
	}
	run.err = errUnknown()
	close(run.done)
	delete(r.runs, run.spec.ID)
	r.order = slices.DeleteFunc(r.order, func(other *Run) bool { return other == run })
}

// Start starts the run once it is its turn. code is nil for a command, stdin for none.
func (r *Runner) Start(run *Run, code, stdin []byte) error {
	run.spec.Code, run.spec.Stdin = code, stdin
	if err := check(run.spec); err != nil {
		r.Abandon(run)
		return err
	}
	r.mu.Lock()
	run.started = true
	r.mu.Unlock()
	go r.conduct(run)
	return nil
}

// Kill ends the run's whole tree, or keeps it from starting. An unknown run is no error.
func (r *Runner) Kill(id string) {
	if run := r.find(id); run != nil {
		run.kill.Do(func() { close(run.killed) })
	}
}

func errUnknown() error { return core.Errorf(core.ErrNotFound, "this box knows no such run") }

// Wait returns the exit of a run that has been started, once it has one.
func (r *Runner) Wait(ctx context.Context, id string) (core.Exit, error) {
	run := r.find(id)
	if run == nil {
		return core.Exit{}, errUnknown()
	}
	select {
	case <-run.done:
		return run.exit, run.err
	case <-ctx.Done():
		return core.Exit{}, ctx.Err()
	}
}

// ReadOutput reads into data what has been spilled of a run so far; eof says that nothing has after that.
func (r *Runner) ReadOutput(id string, stream core.Stream, data []byte, offset int64) (piece core.OutputPiece, eof bool, err error) {
	run := r.find(id)
	if run == nil {
		return piece, false, core.Errorf(core.ErrNotFound, "this box has no output of such a run").
			WithHint("the output of the last few runs is kept")
	}
	c := run.captures[0]
	switch stream {
	case core.Stdout:
	case core.Stderr:
		c = run.captures[1]
	default:
		return piece, false, core.Errorf(core.ErrInvalid, "there is no stream %q", stream)
	}
	ended := run.ended() // before it is read, so that what it wrote last is not missed
	n, err := c.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return piece, false, core.Errorf(core.ErrInternal, "the output cannot be read: %w", err)
	}
	return core.OutputPiece{Data: data[:n], Offset: offset, Total: c.Total(), Ended: ended}, err != nil, nil
}

// WriteStdin gives a run more of its stdin, and returns how much of that there was room for.
func (r *Runner) WriteStdin(id string, data []byte, end bool) (int, error) {
	run := r.find(id)
	switch {
	case run == nil || run.ended():
		return 0, errUnknown()
	case run.input == nil:
		return 0, errStdinClosed()
	}
	n, err := run.input.add(data, end)
	if err != nil && run.ended() {
		err = errUnknown()
	}
	return n, err
}

func (r *Runner) find(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

// keeps reports whether what the run has started goes on when it ends by itself.
func (run *Run) keeps() bool { return run.spec.Keep || run.spec.Session }

// Done is closed once the run has its exit or error.
func (run *Run) Done() <-chan struct{} { return run.done }

// Result returns what the run ended with; only after Done.
func (run *Run) Result() (core.Exit, error) { return run.exit, run.err }

// Live returns what a stream has brought since the last time, if the spec asked for it.
func (run *Run) Live(stream core.Stream) []byte {
	i := 0
	if stream == core.Stderr {
		i = 1
	}
	if run.live[i] == nil {
		return nil
	}
	return run.live[i].Take()
}

func (run *Run) ended() bool {
	select {
	case <-run.done:
		return true
	default:
		return false
	}
}
