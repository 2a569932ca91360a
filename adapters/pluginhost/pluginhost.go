// Package pluginhost makes an execution.Backend of a plugin executable: it finds the file,
// checks it, launches it with little of the host's environment, and starts it again when it
// dies.
//
// It is for the server and the command line. It does not know what a plugin does, and keeps
// nothing between starts: boxes live on in the engine, and the next process finds them there.
package pluginhost

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
	"github.com/boxwright/boxwright/ports/execution"
)

// Config says which plugin, and what it is told. Name is required.
type Config struct {
	Name     string   // the backend's name, as users know it
	Plugin   string   // the plugin's: "docker" is the executable boxwright-backend-docker; "": that of the backend
	Path     string   // the executable; "" searches beside the server's own
	SHA256   string   // hex; when set, no other file is started
	EnvAllow []string // all of the plugin's environment: NAME of the host's, or NAME=VALUE; nil: DefaultEnv

	Settings json.RawMessage   // the plugin's own section of the config
	Agents   map[string]string // paths of the agent by GOARCH
	Instance string
	Server   string

	Logger       *slog.Logger  // nil discards
	StartTimeout time.Duration // 0: 15 s
	WaitTimeout  time.Duration // how long a call waits for a restart; 0: 15 s
	InfoTimeout  time.Duration // how long the plugin may take to tell about itself and its engine; 0: 45 s
}

const (
	defaultTimeout = 15 * time.Second
	infoTimeout    = patience.QuickTime + defaultTimeout // the backend is the first to give up, and knows what on
	minBackoff     = 200 * time.Millisecond
	maxBackoff     = 10 * time.Second
	healthyAfter   = time.Minute
)

// Plugin is a supervised plugin process, as a backend.
type Plugin struct {
	cfg    Config
	log    *slog.Logger
	cancel context.CancelFunc
	gone   chan struct{} // closed when the supervisor has ended
	kick   chan struct{} // asks for another start after a failed one

	mu  sync.Mutex
	now state
}

// state is what the calls see of the supervisor.
type state struct {
	process *process      // nil while there is none
	err     error         // why the last start failed; nil while starting or running
	retry   time.Time     // with err: not before
	next    chan struct{} // closed when this state is over
}

var _ execution.Backend = (*Plugin)(nil)

// Open starts the plugin in the background and returns at once. Calls wait for the start.
func Open(cfg Config) *Plugin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = defaultTimeout
	}
	if cfg.WaitTimeout <= 0 {
		cfg.WaitTimeout = defaultTimeout
	}
	if cfg.InfoTimeout <= 0 {
		cfg.InfoTimeout = infoTimeout
	}
	if cfg.Plugin == "" {
		cfg.Plugin = cfg.Name
	}
	if cfg.EnvAllow == nil {
		cfg.EnvAllow = DefaultEnv()
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Plugin{
		cfg:    cfg,
		log:    cfg.Logger.With("backend", cfg.Name),
		cancel: cancel,
		gone:   make(chan struct{}),
		kick:   make(chan struct{}, 1),
		now:    state{next: make(chan struct{})},
	}
	go p.supervise(ctx)
	return p
}

// Close stops the plugin and returns when its process is gone. When ctx ends first the process
// is killed.
func (p *Plugin) Close(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	if running := p.snapshot().process; running != nil {
		running.kill()
	}
	<-p.gone
	return nil
}

// PID is the plugin's process id; 0 while there is none.
func (p *Plugin) PID() int {
	if running := p.snapshot().process; running != nil {
		return running.pid()
	}
	return 0
}

func (p *Plugin) supervise(ctx context.Context) {
	defer close(p.gone)
	defer p.become(state{err: p.closedError(), retry: time.Now().Add(maxBackoff)})
	wait := backoff{}
	for ctx.Err() == nil {
		started := time.Now()
		running, err := launch(ctx, p.cfg, p.log)
		if err != nil && ctx.Err() != nil {
			return // nobody wants it any more
		}
		if err != nil {
			p.log.Warn("the plugin did not start", "error", err)
			p.become(state{err: err, retry: time.Now().Add(wait.next())})
			p.awaitKick(ctx)
			p.become(state{})
			continue
		}
		p.become(state{process: running})
		select {
		case <-running.done():
			p.log.Error("the plugin stopped; it is being started again", "exit", running.exit())
			p.become(state{})
		case <-ctx.Done():
		}
		running.close()
		if time.Since(started) > healthyAfter {
			wait = backoff{}
		}
		pause(ctx, wait.next())
	}
}

// awaitKick waits until a call wants the plugin, and the time for it has come.
func (p *Plugin) awaitKick(ctx context.Context) {
	pause(ctx, time.Until(p.snapshot().retry))
	select {
	case <-p.kick:
	case <-ctx.Done():
	}
}

func (p *Plugin) become(next state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next.next = make(chan struct{})
	close(p.now.next)
	p.now = next
}

func (p *Plugin) snapshot() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// acquire returns the running process, and waits for one that is on its way. A start that has
// just failed is told at once, and not tried again before its time.
func (p *Plugin) acquire(ctx context.Context) (*process, error) {
	patience := time.NewTimer(p.cfg.WaitTimeout)
	defer patience.Stop()
	kicked := false
	for {
		now := p.snapshot()
		switch {
		case now.process != nil && now.process.lives():
			return now.process, nil
		case now.err != nil && (kicked || time.Now().Before(now.retry)):
			return nil, now.err
		case now.err != nil:
			kicked = true
			p.wake()
		}
		select {
		case <-now.next:
		case <-ctx.Done():
			return nil, endedError(ctx)
		case <-patience.C:
			return nil, core.Errorf(core.ErrUnavailable, "the backend plugin %s is still being started", p.cfg.Name).
				WithHint("try again in a moment; the server's log says more")
		}
	}
}

func (p *Plugin) wake() {
	select {
	case p.kick <- struct{}{}:
	default: // somebody has asked already
	}
}

func (p *Plugin) closedError() error {
	return core.Errorf(core.ErrUnavailable, "the backend plugin %s is closed", p.cfg.Name)
}

// backoff doubles from minBackoff to maxBackoff.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, minBackoff), maxBackoff)
	return b.last
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func endedError(ctx context.Context) error {
	if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // the runtime's own value
		return core.Errorf(core.ErrTimeout, "it took too long")
	}
	return core.Errorf(core.ErrCancelled, "the caller cancelled")
}
