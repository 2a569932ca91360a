package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/session"
)

// Settings are the operator's decisions, checked and with defaults filled in.
type Settings struct {
	Routes       core.Routes // which backend runs what, before the default
	Choices      []string    // backends that clients may choose where no route applies
	Images       core.ImagePolicy
	DefaultImage string // "": the backend's own, else FallbackImage; it need not be among Images
	Pull         core.PullPolicy
	Limits       core.Limits
	Unenforced   core.Unenforced

	Interpreters core.Interpreters // languages besides Python
	Sessions     SessionSettings
	SyncLimit    time.Duration // a call waits no longer; its run goes on in the background
	KeepRuns     time.Duration // how long results of runs are kept
	KeepRunBytes int64         // what the store keeps of what runs printed and showed; 0 is no bound

	Timeout       time.Duration // of a run that asks for none
	MaxTimeout    time.Duration
	MaxCode       int64 // bytes
	MaxStdin      int64 // bytes
	MaxInputs     int   // files sent with a run
	MaxInputBytes int64 // of all of them
	MaxConcurrent int   // runs at once on one backend; more wait
	MaxQueued     int   // runs of one tenant that wait; more are refused
	MaxWait       time.Duration
	MaxBoxes      int64            // at once; 0 is no bound
	MaxMemory     int64            // bytes that all boxes together may use; 0 is no bound
	Quota         Quota            // of each tenant
	Quotas        map[string]Quota // of some, by their principal's id or a user's name; a zero field is as in Quota
	QuotaWindow   time.Duration    // in which Quota.CPU may be used; 0: a day
	KeepFiles     time.Duration    // how long files are kept; 0: nobody knows
	Pool          Pool
	Tenant        string // whose runs boxes wait for before anybody has asked, where tenants share none

	Output       core.OutputLimits
	MaxFile      int64 // bytes of one file that is kept
	MaxFiles     int64 // bytes of all files of a run that are kept
	InlineImage  int64 // bytes of an image shown in place; all of a run may have a quarter more
	Dependencies bool  // runs may ask for packages
	AutoInstall  bool  // and for those that they turn out to lack
	InstallLimit time.Duration
	InstallSize  core.Limits // of installer boxes
	Keep         Keep
	// Requirements is what runs may ask for besides packages of an index.
	Requirements core.RequirementPolicy
	// MaxEnvironment bounds one environment, in bytes; 0: 8 GiB.
	MaxEnvironment int64
	// EnvironmentAge is how long after its install an environment is used; 0: for ever.
	EnvironmentAge time.Duration
}

// SessionSettings bound sessions.
type SessionSettings struct {
	IdleTimeout    time.Duration // without a call; a session may ask for another
	MaxIdleTimeout time.Duration // that a session may ask for
	MaxAge         time.Duration
	MaxQueued      int  // calls that wait for one session
	KeepOnExit     bool // sessions outlive a server that ends as it should
}

// FallbackImage is the image of runs for which neither anybody nor the backend names one.
const FallbackImage = "python:3.11-slim"

// Ports are what the use cases drive.
type Ports struct {
	Backends  *Backends
	Guests    execution.Connector
	Artifacts artifact.Store
	Installer dependency.Installer
	Index     dependency.Index
	Catalog   dependency.Catalog
	Sessions  session.Store
	Runs      session.Runs
	Usage     identity.Usage

	Instance string // the installation's id, on every label
	Server   string // this process's id, on every label
	// Forgetful says that the index does not outlive this process, and no other process knows it.
	Forgetful bool
	Alive     func(server string) bool // whether a server process of this installation still runs
	Now       func() time.Time
	NewID     func() string // random, unguessable, [a-z0-9]
	Log       *slog.Logger
}

// Service is the use cases.
type Service struct {
	ports     Ports
	settings  Settings
	boxes     *boxes
	admission *admission
	pool      *pool
	runs      *ledger
	spending  *spending
	released  sync.Map // by owner: when it was looked last whether its files are gone
	sessions  *sessions
	places    places
	installs  flights[core.Environment]
	compiles  compiles
	trims     trims
	closing   context.Context
	close     context.CancelFunc
}

// New wires a Service. Sweep and Close belong to its life.
func New(ports Ports, settings Settings) *Service {
	closing, stop := context.WithCancel(context.Background())
	s := &Service{
		ports:     ports,
		settings:  settings,
		boxes:     newBoxes(ports),
		admission: newAdmission(settings, ports.Now),
		runs:      newLedger(ports),
		spending:  newSpending(ports, settings.QuotaWindow),
		sessions:  newSessions(),
		places:    places{all: map[string]*place{}},
		closing:   closing,
		close:     stop,
	}
	s.pool = newPool(closing, ports, settings, s.boxes, s.admission)
	s.boxes.pool = s.pool
	if settings.Dependencies {
		s.pool.installer = func(on *place, image core.Image) kind {
			return s.kindOf(kit{on: on, image: image, zone: s.zone(on, settings.Tenant)})
		}
	}
	return s
}

// Close ends running work, and returns when every box of this server is gone or ctx ends;
// then its error says what was left behind.
func (s *Service) Close(ctx context.Context) error {
	s.close()
	s.pool.close()
	err := errors.Join(s.endSessions(ctx), s.boxes.drain(ctx))
	s.runs.saveAll(ctx)
	s.spending.flush(ctx)
	return errors.Join(err, s.sweepAll(ctx, s.boxes.suspects()))
}

// whileOpen ends when ctx does or when the service closes: at once if it does already. Close waits until it is
// released: only then has the work undone what it had made.
func (s *Service) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	s.boxes.work.join()
	ctx, cancel := context.WithCancel(ctx)
	if s.closing.Err() != nil {
		cancel() // before anything begins
	}
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.boxes.work.leave()
	}
}

// cancelled is the error of a call whose ctx ended.
func cancelled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrTimeout, "it took too long")
	}
	return core.Errorf(core.ErrCancelled, "the call was cancelled")
}
