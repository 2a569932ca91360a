package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Plugin is a backend that belongs to this server.
type Plugin interface {
	execution.Backend
	// Close stops it; when ctx ends first, by force. Its boxes stay.
	Close(ctx context.Context) error
}

// Source is a backend that can be started.
type Source struct {
	Name      string        // as users know it
	Installed func() error  // why there is nothing to start; nil if there is
	Open      func() Plugin // starts it in the background and returns at once
}

// Preference says which backend is used when nobody asks for another: the first of Names that
// works. A single name is taken whether it works or not.
type Preference struct {
	Names      []string
	Unenforced core.Unenforced // refuse: a backend where a limit does not hold does not work
}

// Backends are the backends of one server. Each is started when it is first needed, and stopped by
// Close. The default, once found, stays until then: installed packages live there.
type Backends struct {
	sources map[string]Source
	prefer  Preference
	log     *slog.Logger
	closing context.Context
	close   context.CancelFunc
	work    crew // searches and stops under way

	mu      sync.Mutex
	closed  bool
	running map[string]*member
	search  *search
}

// member is a backend that was started.
type member struct {
	plugin Plugin
	inUse  bool // somebody was given it, so that it stays
}

// search is one try to find the default.
type search struct {
	done chan struct{}
	name string
	err  error
}

// NewBackends makes the set. Nothing is started before Start, Default or Get.
func NewBackends(sources []Source, prefer Preference, log *slog.Logger) *Backends {
	closing, stop := context.WithCancel(context.Background())
	b := &Backends{
		sources: map[string]Source{}, prefer: prefer, log: log, work: crew{log: log},
		closing: closing, close: stop, running: map[string]*member{},
	}
	for _, s := range sources {
		b.sources[s.Name] = s
	}
	return b
}

// Start starts the default, or looks for it, in the background.
func (b *Backends) Start() {
	if len(b.prefer.Names) > 1 {
		b.join()
		return
	}
	for _, name := range b.prefer.Names {
		_, _ = b.Get(name) // an error is told to whoever needs it
	}
}

// Default names the backend that is used when nobody asks for another. It waits for a search that
// is under way, and begins one if the last did not find any.
func (b *Backends) Default(ctx context.Context) (string, error) {
	if len(b.prefer.Names) == 1 {
		return b.prefer.Names[0], nil
	}
	s := b.join()
	select {
	case <-s.done:
		return s.name, s.err
	case <-ctx.Done():
		return "", cancelled(ctx)
	}
}

// Get returns a backend by its name, and starts it if it was not needed before.
func (b *Backends) Get(name string) (execution.Backend, error) {
	return b.start(name, true)
}

// InUse lists the backends that may have boxes of this server's, by name.
func (b *Backends) InUse() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(b.running)) {
		if b.running[name].inUse {
			names = append(names, name)
		}
	}
	return names
}

// Close stops all backends, at the same time, and returns when they are gone.
func (b *Backends) Close(ctx context.Context) error {
	b.close()
	b.mu.Lock()
	b.closed = true
	running := slices.Collect(maps.Values(b.running))
	clear(b.running)
	b.mu.Unlock()
	errs := make([]error, len(running))
	var all sync.WaitGroup
	for i, m := range running {
		all.Go(func() {
			errs[i] = safely(b.log, "stopped a backend", func() error { return m.plugin.Close(ctx) })
		})
	}
	all.Wait()
	<-b.work.idle()
	return errors.Join(errs...)
}

// start returns a running backend. One that is not put to use may be stopped again.
func (b *Backends) start(name string, use bool) (Plugin, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, closedError()
	}
	m := b.running[name]
	if m == nil {
		source, has := b.sources[name]
		if !has {
			return nil, core.Errorf(core.ErrInvalid, "there is no backend %q", name).
				WithHint("the backends are: %s", strings.Join(slices.Sorted(maps.Keys(b.sources)), ", "))
		}
		m = &member{plugin: source.Open()}
		b.running[name] = m
	}
	m.inUse = m.inUse || use
	return m.plugin, nil
}

func closedError() error {
	return core.Errorf(core.ErrCancelled, "the server is closing")
}

// stopTime bounds the end of a backend that was not chosen; then it is killed.
const stopTime = 10 * time.Second

// stopOthers stops what was only started to be looked at.
func (b *Backends) stopOthers(chosen string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range b.prefer.Names {
		m := b.running[name]
		if name == chosen || m == nil || m.inUse || b.closed {
			continue
		}
		delete(b.running, name)
		b.work.do("stopped a backend", func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			if err := m.plugin.Close(ctx); err != nil {
				b.log.Warn("a backend that is not used did not end", "backend", name, "error", err)
			}
		})
	}
}
