package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// RunOnce runs a program in a box of its own and returns the record of it. A program that fails,
// runs out of time or memory, or is cancelled while it runs, is a record; an error means that it
// could not be run. A record whose status is running is that of a run that goes on; GetRun tells how it
// ends. progress may be nil, and is not called after the return.
func (s *Service) RunOnce(ctx context.Context, r core.Request, progress func(core.Progress)) (core.Record, error) {
	job, err := s.settings.plan(r, false)
	if err != nil {
		return core.Record{}, err
	}
	return s.launch(ctx, job, "", progress, (*run).once)
}

// run is one run under way.
type run struct {
	*Service
	*place
	job
	under    *underway
	progress func(core.Progress)
	clock    *stopwatch
	record   core.Record
	packages core.Environment      // that the program finds
	bookings []func(time.Duration) // of processor time: one for each time that the program runs
	// afterwards removes what the run used: only once its record is kept, as the box is where a server that
	// comes after this one would find out how it ended.
	afterwards func()
}

// tidy ends what the run used.
func (r *run) tidy() {
	if r.afterwards != nil {
		r.afterwards()
	}
}

// once runs the program in a box of its own. If its packages turn out to be gone, they are installed again, once.
func (r *run) once(ctx context.Context) (core.Record, error) {
	r.clock.enter(core.PhaseQueue)
	if err := r.settle(ctx); err != nil {
		return core.Record{}, err
	}
	image, err := r.ensureImage(ctx)
	if err != nil {
		return core.Record{}, err
	}
	if _, err := r.ensureEnvironment(ctx, image); err != nil {
		return core.Record{}, err
	}
	record, err := r.alone(ctx, image)
	if lost := r.lacksPackages(err); !lost {
		return record, err
	}
	r.tidy()
	if err := r.forgetEnvironment(ctx, r.packages); err != nil {
		return core.Record{}, err
	}
	if _, err := r.ensureEnvironment(ctx, image); err != nil {
		return core.Record{}, err
	}
	return r.alone(ctx, image)
}

// lacksPackages reports whether a program was not run because its packages are not there.
func (r *run) lacksPackages(err error) bool {
	return len(r.spec.PythonPath) > 0 && core.KindOf(err) == core.ErrDependency
}

// alone runs the program in a box of its own, once all that it needs is there; in another one if more is.
func (r *run) alone(ctx context.Context, image core.Image) (core.Record, error) {
	for {
		record, again, err := r.attempt(ctx, image)
		if err != nil || !again {
			return record, err
		}
		r.tidy()
		r.afterwards = nil
	}
}

// attempt reports whether the program is to run again, as it has now what it lacked.
func (r *run) attempt(ctx context.Context, image core.Image) (record core.Record, again bool, err error) {
	box, leave, err := r.enterBox(ctx, image, core.PurposeRun, r.spec.Timeout)
	if err != nil {
		return core.Record{}, false, err
	}
	defer leave()
	r.afterwards = box.discard
	r.record.Image, r.record.Warnings = image, box.Warnings
	exit, err := r.execute(ctx, box.guest, box.ID)
	if err != nil {
		if exit, err = r.explainLoss(ctx, box.ID, err); err != nil {
			return core.Record{}, false, err
		}
	}
	again = r.supply(ctx, exit, func(ctx context.Context) error {
		_, err := r.ensureEnvironment(ctx, image)
		return err
	})
	if again {
		return core.Record{}, true, nil
	}
	return r.conclude(ctx, box.guest, exit), false, nil
}

// conclude makes the record of a program that has ended.
func (r *run) conclude(ctx context.Context, guest execution.Guest, exit core.Exit) core.Record {
	r.clock.enter(core.PhaseCollect)
	if len(exit.Files) > 0 {
		r.progress(core.Progress{Phase: core.PhaseCollect, Message: fmt.Sprintf("collecting files: %d", len(exit.Files))})
	}
	r.note(exit)
	r.collect(ctx, guest, exit)
	r.record.Durations, r.record.Total = r.clock.stop()
	return r.record
}

// settle decides where the program runs, and in which image. An image that only the backend could name
// may have a route as well: it counts as if the client had named the image.
func (r *run) settle(ctx context.Context) error {
	info, err := r.choose(ctx)
	if err != nil {
		return err
	}
	if r.image, err = r.settings.pickImage(r.image, r.fallback, info); err != nil {
		return err
	}
	_, err = r.choose(ctx)
	return err
}

// choose sets the place, by what is known of the image so far.
func (r *run) choose(ctx context.Context) (core.Info, error) {
	on, err := r.pick(ctx, r.job)
	if err != nil {
		return core.Info{}, err
	}
	r.place = on
	return on.told(ctx, r.settings.Unenforced)
}

// stallLimit is how long a backend may be silent while it gets an image.
const stallLimit = 5 * time.Minute

// ensureImage gives a backend up that shows no sign of life: an image may take long, but not silently.
func (r *run) ensureImage(ctx context.Context) (core.Image, error) {
	r.clock.enter(core.PhaseImage)
	if image, known := r.pool.image(r.place, r.image); known {
		return image, nil
	}
	fetching, cancel := context.WithCancel(ctx)
	defer cancel()
	alarm := time.AfterFunc(stallLimit, cancel)
	defer alarm.Stop()
	image, err := r.backend.EnsureImage(fetching, r.image, r.settings.Pull, func(p core.Progress) {
		alarm.Reset(stallLimit)
		r.progress(p)
	})
	if err != nil && fetching.Err() != nil && ctx.Err() == nil {
		return core.Image{}, core.Errorf(core.ErrUnavailable, "the backend %s showed no progress with image %s for %s", r.name, r.image, stallLimit).
			WithHint("try once more; the server's log may say more")
	}
	if err == nil {
		r.pool.learn(r.place, image)
	}
	return image, err
}

// enterBox waits until there may be one more box, and gets it. Getting the image and packages comes before:
// who waits for these keeps nobody from a place. The box counts until it is gone, the run until leave is called.
func (r *run) enterBox(ctx context.Context, image core.Image, purpose core.Purpose, lifetime time.Duration) (made *box, leave func(), err error) {
	r.clock.enter(core.PhaseQueue)
	asked := claim{tenant: r.tenant, backend: r.name, memory: r.settings.Limits.MemoryBytes, kind: claimRun}
	if purpose == core.PurposeSession {
		asked.kind, asked.lasting = claimBox, true
	}
	ticket, err := r.admit(ctx, asked, r.queued)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if made == nil { // for whatever reason
			ticket.release()
		}
	}()
	r.clock.enter(core.PhaseBox)
	if made, err = r.makeBox(ctx, image, purpose, lifetime); err != nil {
		return nil, nil, err
	}
	ticket.follow(r.boxes, made.ID)
	return made, ticket.release, nil
}

func (r *run) queued(position int) {
	r.progress(core.Progress{Phase: core.PhaseQueue, Message: fmt.Sprintf("waiting for a place to run: number %d in the queue", position)})
}

// ensureEnvironment has the program find the packages that it asks for.
func (r *run) ensureEnvironment(ctx context.Context, image core.Image) (core.Environment, error) {
	if len(r.requirements) == 0 {
		return core.Environment{}, nil
	}
	r.clock.enter(core.PhaseDependencies)
	environment, fresh, err := r.environment(ctx, r.place, image, r.requirements, r.tenant, r.progress)
	if fresh {
		r.record.Install = environment.Report
	}
	if err == nil {
		r.packages, r.spec.PythonPath = environment, []string{environment.Path()}
	}
	return environment, err
}

func (r *run) makeBox(ctx context.Context, image core.Image, purpose core.Purpose, lifetime time.Duration) (*box, error) {
	spec := r.settings.boxSpec(r.image, image.Digest)
	spec.Labels.Tenant, spec.Labels.Purpose = r.tenant, purpose
	spec.Mounts = []core.Mount{r.zone(r.place, r.tenant)}
	r.madeOf(image)
	return r.boxes.open(ctx, r.place, spec, lifetime)
}

// overdue is how long the end of a program may be late.
const overdue = 15 * time.Second

// execute puts the files in and runs the program. With a program whose timeout the agent should
// have ended long ago, the agent is not to be trusted any more: it is given up.
func (r *run) execute(ctx context.Context, guest execution.Guest, box string) (core.Exit, error) {
	if err := r.checkPython(ctx, guest); err != nil {
		return core.Exit{}, err
	}
	if err := patiently(ctx, func(ctx context.Context) error { return r.upload(ctx, guest) }); err != nil {
		return core.Exit{}, err
	}
	r.clock.enter(core.PhaseRun)
	r.runs.begin(ctx, r.under, guest, r.name, box, r.spec.ID)
	r.progress(core.Progress{Phase: core.PhaseRun, Message: "running"})
	ctx, cancel := context.WithTimeout(ctx, r.spec.Timeout+overdue)
	defer cancel()
	return guest.Run(ctx, r.spec, r.sink())
}

// upload puts the run's files into its box.
func (r *run) upload(ctx context.Context, guest execution.Guest) error {
	for _, f := range r.files {
		if err := guest.WriteFile(ctx, f.Name, bytes.NewReader(f.Content)); err != nil {
			return fmt.Errorf("file %q could not be put into the box: %w", f.Name, err)
		}
	}
	return nil
}

func (r *run) sink() func(core.Stream, []byte) {
	if !r.spec.Stream {
		return nil
	}
	return func(_ core.Stream, data []byte) {
		r.progress(core.Progress{Phase: core.PhaseRun, Message: string(data)})
	}
}

// explainLoss looks whether the box itself died of memory, as a sandbox with a kernel of its own does: that
// is how the program ended, although its agent could not tell any more.
func (r *run) explainLoss(ctx context.Context, box string, err error) (core.Exit, error) {
	if errors.Is(err, core.ErrTimeout) && ctx.Err() == nil {
		err = core.Errorf(core.ErrUnavailable, "the box stopped answering while the code ran, and was removed").
			WithHint("try once more; a program that takes all of its box's memory or processes can cause this")
	}
	if !errors.Is(err, core.ErrUnavailable) {
		return core.Exit{}, err
	}
	if found, lookErr := r.look(ctx, r.ports.Instance, box); lookErr == nil && found.OOMKilled {
		return core.Exit{Code: 137, Signal: "SIGKILL", OOMKilled: true, StateLost: true, Warnings: []string{
			"the box itself ran out of memory and ended: what the program printed and wrote is lost",
		}}, nil
	}
	return core.Exit{}, err
}

// look asks the backend how a box is; one that is gone is core.ErrNotFound.
func (p *place) look(ctx context.Context, instance, box string) (core.Box, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	inventory, err := p.backend.List(ctx, instance)
	if err != nil {
		return core.Box{}, err
	}
	for _, b := range inventory.Boxes {
		if b.ID == box {
			return b, nil
		}
	}
	return core.Box{}, core.Errorf(core.ErrNotFound, "the box is gone")
}

func (r *run) note(exit core.Exit) {
	known := r.under.snapshot()
	r.record.RunID, r.record.Backend, r.record.Session = r.under.id, r.name, known.Session
	r.record.Displays = exit.Displays
	r.record.Status = core.StatusOf(exit)
	r.record.ExitCode, r.record.Signal = exit.Code, exit.Signal
	r.record.TimedOut, r.record.OOMKilled, r.record.Cancelled = exit.TimedOut, exit.OOMKilled, exit.Cancelled
	r.record.Stdout, r.record.Stderr = exit.Stdout, exit.Stderr
	r.record.Warnings = append(r.record.Warnings, exit.Warnings...)
}

// stopwatch splits the time of a run into phases.
type stopwatch struct {
	now     func() time.Time
	began   time.Time
	entered time.Time
	phase   core.Phase
	spent   map[core.Phase]time.Duration
}

func newStopwatch(now func() time.Time) *stopwatch {
	return &stopwatch{now: now, began: now(), spent: map[core.Phase]time.Duration{}}
}

func (w *stopwatch) enter(phase core.Phase) {
	at := w.now()
	if w.phase != "" {
		w.spent[w.phase] += at.Sub(w.entered)
	}
	w.phase, w.entered = phase, at
}

// backdate sets it as if the program had just ended, so long after it began, and that so long after the call.
func (w *stopwatch) backdate(before, ran time.Duration) {
	w.phase, w.entered = core.PhaseRun, w.now().Add(-ran)
	w.began = w.entered.Add(-before)
}

func (w *stopwatch) stop() (map[core.Phase]time.Duration, time.Duration) {
	w.enter("")
	return w.spent, w.now().Sub(w.began)
}
