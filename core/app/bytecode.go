package app

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// The times of compiling: how long it may take with its boxes, how long it waits for a moment in which nothing
// runs, and how long after a failure it is tried again.
const (
	compileLimit    = 8 * time.Minute
	compilePatience = 10 * time.Second
	compilePause    = 10 * time.Minute
)

// compiles are the environments whose bytecode is being compiled, or could not be.
type compiles struct {
	mu  sync.Mutex
	all map[string]*compiling // by key
}

// compiling is one try.
type compiling struct {
	began time.Time
	done  chan struct{}
}

// begin returns the try that is under way or has just failed, or else a new one.
func (c *compiles) begin(key string, now time.Time) (try *compiling, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if try = c.all[key]; try != nil && now.Sub(try.began) < compilePause {
		return try, false
	}
	if c.all == nil {
		c.all = map[string]*compiling{}
	}
	maps.DeleteFunc(c.all, func(_ string, old *compiling) bool { return now.Sub(old.began) >= compilePause })
	try = &compiling{began: now, done: make(chan struct{})}
	c.all[key] = try
	return try, true
}

// end forgets a try, unless it failed.
func (c *compiles) end(key string, try *compiling, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.all[key] == try {
		delete(c.all, key)
	}
	close(try.done)
}

// haveCompiled has the bytecode of an environment compiled in the background, if it is not there. Programs can use
// the environment meanwhile: they compile what they import, each time. It begins when the run that wants the
// environment, and others, are over, or after a while. The channel is closed when that has come to its end.
func (s *Service) haveCompiled(on *place, image core.Image, e core.Environment) <-chan struct{} {
	if e.Compiled {
		done := make(chan struct{})
		close(done)
		return done
	}
	try, fresh := s.compiles.begin(e.Key, s.ports.Now())
	if !fresh {
		return try.done
	}
	ctx, release := s.whileOpen(context.Background())
	s.boxes.work.do("had packages compiled", func() {
		defer release()
		defer s.pool.stir()        // boxes for the next installation come after it
		if sleep(ctx, warmPause) { // the run that it was installed for is about to begin
			s.awaitCalm(ctx, compilePatience)
		}
		err := safely(s.ports.Log, "compiled packages", func() error { return s.compile(ctx, on, image, e) })
		if err != nil && ctx.Err() == nil {
			s.ports.Log.Warn("packages could not be compiled; their imports are slower", "packages", e.Names, "backend", on.name, "error", err)
		}
		s.compiles.end(e.Key, try, err)
		if err := s.trimCache(ctx, on, image); err != nil && ctx.Err() == nil {
			s.ports.Log.Warn("the cache of downloads could not be looked at", "backend", on.name, "error", err)
		}
	})
	return try.done
}

// compile has an environment's bytecode added to it, as far as that can be.
func (s *Service) compile(ctx context.Context, on *place, image core.Image, e core.Environment) error {
	ctx, cancel := context.WithTimeout(ctx, compileLimit)
	defer cancel()
	room := max(0, s.settings.environmentSize()-e.Size)
	added, err := s.addBytecode(ctx, on, image, e, room)
	if errors.Is(err, core.ErrDependency) { // another time it would be no better
		s.ports.Log.Info("not all bytecode of packages is kept; some imports are slower", "packages", e.Names, "backend", on.name, "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	return s.compiled(ctx, e, min(added.Bytes, room))
}

// addBytecode has bytecode compiled in a box without network, like those that run code: into a volume of its own, from
// which a courier puts it into the environment. So it does not matter what the packages' code does to a compiler.
func (s *Service) addBytecode(ctx context.Context, on *place, image core.Image, e core.Environment, room int64) (core.Kept, error) {
	name := "boxwright-env-" + e.Key[:16] + "-" + s.ports.NewID()
	defer s.removeVolume(on, name)
	labels := core.Labels{Instance: s.ports.Instance, Server: s.ports.Server, Purpose: core.PurposeEnvironment}
	if _, err := on.backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: labels}); err != nil {
		return core.Kept{}, err
	}
	spec := core.BoxSpec{
		Image: image.Ref, Digest: image.Digest, Limits: s.settings.InstallSize, Unenforced: core.UnenforcedWarn,
		Mounts: []core.Mount{{Volume: name, Path: core.GuestEnvironment, Writable: true}, {Volume: e.Zone, Path: core.GuestEnvironments}},
		Labels: core.Labels{Purpose: core.PurposeCompile},
	}
	err := s.within(ctx, on, spec, func(box *box) error { return s.ports.Installer.Compile(ctx, box.guest, e.Path()) })
	if err != nil {
		return core.Kept{}, err
	}
	return s.courier(ctx, on, courierSpec(s.settings, image, e.Zone, name),
		"add", "--max-bytes", strconv.FormatInt(room, 10), "--max-entries", strconv.Itoa(maxEntries), core.GuestEnvironment, e.Path())
}

// compiled notes that an environment has its bytecode. One that is gone meanwhile stays so, and one that was installed
// anew has none yet.
func (s *Service) compiled(ctx context.Context, done core.Environment, bytes int64) error {
	e, err := s.ports.Index.Get(ctx, done.Key)
	if errors.Is(err, core.ErrNotFound) || err == nil && (e.Compiled || e.Folder != done.Folder) {
		return nil
	}
	if err != nil {
		return err
	}
	e.Compiled, e.Size = true, e.Size+bytes
	return s.ports.Index.Put(ctx, e)
}
