package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// sessions are those that this server uses. What is true of a session is in the store; here is what a
// process needs to use it: its stream and its queue.
type sessions struct {
	mu      sync.Mutex
	held    map[string]*held // by id
	opening map[string]*line // by connection: two first calls make one session
}

// held is a session in use by this server.
type held struct {
	id    string
	line  line
	mu    sync.Mutex
	guest execution.Guest // nil until it is needed
}

func newSessions() *sessions {
	return &sessions{held: map[string]*held{}, opening: map[string]*line{}}
}

func (s *sessions) hold(id string) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	if h == nil {
		h = &held{id: id}
		s.held[id] = h
	}
	return h
}

// drop forgets a session that is over, and closes its stream.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	h := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if h != nil {
		h.disconnect()
	}
}

// turn keeps the calls of one connection from opening two sessions.
func (s *sessions) turn(client string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.opening[client]
	if l == nil {
		l = &line{}
		s.opening[client] = l
	}
	return l
}

// connect returns the stream to the session's agent, and makes it if there is none.
func (h *held) connect(dial func() (execution.Guest, error)) (execution.Guest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guest != nil {
		return h.guest, nil
	}
	guest, err := dial()
	if err == nil {
		h.guest = guest
	}
	return guest, err
}

func (h *held) disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guest != nil {
		_ = h.guest.Close() // the box is gone, or about to go
		h.guest = nil
	}
}

// OpenSession makes a session: a box that stays until it is stopped, is idle or old. progress may be nil.
func (s *Service) OpenSession(ctx context.Context, r core.SessionRequest, progress func(core.Progress)) (core.Session, error) {
	if err := core.CheckSessionName(r.Name); err != nil {
		return core.Session{}, err
	}
	idle, err := s.settings.Sessions.pickIdle(r.IdleTimeout)
	if err != nil {
		return core.Session{}, err
	}
	image, err := checkImage(r.Image)
	if err != nil {
		return core.Session{}, err
	}
	requirements, err := s.settings.pickRequirements(r.Dependencies)
	if err != nil {
		return core.Session{}, err
	}
	ctx, release := s.whileOpen(ctx)
	defer release()
	if progress == nil {
		progress = func(core.Progress) {}
	}
	opening := &run{
		Service: s, job: job{image: image, asked: r.Backend, requirements: requirements, tenant: r.Tenant},
		progress: progress, clock: newStopwatch(s.ports.Now),
	}
	made, err := opening.openSession(ctx, r, idle)
	if err != nil && ctx.Err() != nil && !errors.Is(err, core.ErrCancelled) {
		err = cancelled(ctx)
	}
	return made, err
}

// pickIdle is how long a session may be without a call.
func (s SessionSettings) pickIdle(asked *time.Duration) (time.Duration, error) {
	if asked == nil {
		return s.IdleTimeout, nil
	}
	if *asked < time.Second || *asked > s.MaxIdleTimeout {
		return 0, core.Errorf(core.ErrInvalid, "idle_timeout_seconds is %g; it must be from 1 to %g",
			asked.Seconds(), s.MaxIdleTimeout.Seconds()).
			WithHint("leave it out for the default of %g seconds", s.IdleTimeout.Seconds())
	}
	return *asked, nil
}

// openSession makes the box and has the store know it, or leaves nothing.
func (r *run) openSession(ctx context.Context, asked core.SessionRequest, idle time.Duration) (core.Session, error) {
	if err := r.settle(ctx); err != nil {
		return core.Session{}, err
	}
	image, err := r.ensureImage(ctx)
	if err != nil {
		return core.Session{}, err
	}
	if _, err := r.ensureEnvironment(ctx, image); err != nil {
		return core.Session{}, err
	}
	box, _, err := r.enterBox(ctx, image, core.PurposeSession, r.settings.Sessions.MaxAge)
	if err != nil {
		return core.Session{}, err
	}
	now := r.ports.Now()
	made := core.Session{
		ID: r.ports.NewID(), Owner: asked.Tenant, Name: asked.Name, Client: asked.Client,
		Backend: r.name, Box: box.ID, Server: r.ports.Server, Image: image, PythonPath: r.spec.PythonPath,
		Created: now, Used: now, IdleTimeout: idle, MaxAge: r.settings.Sessions.MaxAge,
	}
	for _, requirement := range r.requirements {
		made.Requirements = append(made.Requirements, requirement.String())
	}
	if err := r.ports.Sessions.Add(ctx, made); err != nil {
		box.discard()
		return core.Session{}, err
	}
	held := r.sessions.hold(made.ID)
	held.guest = box.guest
	return made, nil
}

// findSession returns the owner's session: by id or name or, without either, the one of the connection,
// which is made if it has none.
func (r *run) findSession(ctx context.Context, idOrName string) (core.Session, error) {
	if idOrName != "" {
		return r.session(ctx, r.tenant, idOrName)
	}
	leave, err := r.sessions.turn(r.client).enter(ctx, r.settings.Sessions.MaxQueued, func(int) {})
	if err != nil {
		return core.Session{}, err
	}
	defer leave()
	found, err := r.ports.Sessions.OfClient(ctx, r.tenant, r.client)
	if err == nil || !errors.Is(err, core.ErrNotFound) {
		return found, err
	}
	opening := &run{
		Service: r.Service, job: job{image: r.image, asked: r.asked, requirements: r.requirements, tenant: r.tenant},
		progress: r.progress, clock: r.clock,
	}
	defer func() { r.record.Install = opening.record.Install }()
	return opening.openSession(ctx, core.SessionRequest{Tenant: r.tenant, Client: r.client}, r.settings.Sessions.IdleTimeout)
}

// session returns a session that lives.
func (s *Service) session(ctx context.Context, owner, idOrName string) (core.Session, error) {
	found, err := s.ports.Sessions.Get(ctx, owner, idOrName)
	if errors.Is(err, core.ErrNotFound) {
		return core.Session{}, core.Errorf(core.ErrNotFound, "there is no sandbox %q", shortened(idOrName)).
			WithHint("list_sandboxes tells which there are; sandbox_initialize makes one")
	}
	if err != nil {
		return core.Session{}, err
	}
	if found.Lost == "" && s.ports.Now().After(found.Expires()) {
		found.Lost = s.expire(ctx, found)
	}
	if found.Lost != "" {
		return core.Session{}, errExpired(found.Lost)
	}
	return found, nil
}

func shortened(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

func errExpired(why string) error {
	return core.Errorf(core.ErrSessionExpired, "the sandbox is gone: %s", why).
		WithHint("make a new one with sandbox_initialize, or leave sandbox_id out; its variables and files have to be made again")
}

// expire ends a session whose time is over, and tells why.
func (s *Service) expire(ctx context.Context, session core.Session) string {
	why := fmt.Sprintf("it had not been used for %s", session.IdleTimeout)
	if s.ports.Now().After(session.Created.Add(session.MaxAge)) {
		why = fmt.Sprintf("it had reached the age of %s", session.MaxAge)
	}
	s.lose(ctx, session, why)
	return why
}

// lose marks a session as over. Its box, if there is one still, goes in the background.
func (s *Service) lose(ctx context.Context, session core.Session, why string) {
	err := s.ports.Sessions.Update(ctx, session.ID, func(kept *core.Session) error {
		if kept.Lost == "" {
			kept.Lost, kept.Used = why, s.ports.Now()
		}
		return nil
	})
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		s.ports.Log.Warn("the end of a session could not be kept", "session", session.ID, "error", err)
	}
	s.sessions.drop(session.ID)
	if on, err := s.place(session.Backend); err == nil {
		s.boxes.discard(on, session.Box)
	}
}
