package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
)

// OpenSession makes a session: a box that stays until it is stopped, is idle or old. progress may be nil.
func (s *Service) OpenSession(ctx context.Context, r core.SessionRequest, progress func(core.Progress)) (core.Session, error) {
	if err := s.checkName(ctx, r); err != nil {
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
	ctx, release := s.whileOpen(s.inOneCall(ctx))
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

// checkName refuses a name by which another session is found: an id comes before names.
func (s *Service) checkName(ctx context.Context, r core.SessionRequest) error {
	if err := core.CheckSessionName(r.Name); err != nil || r.Name == "" {
		return err
	}
	other, err := s.ports.Sessions.Get(ctx, r.Tenant, r.Name)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err == nil && other.ID == r.Name {
		err = core.Errorf(core.ErrInvalid, "%q is the id of another sandbox", r.Name).WithHint("choose another name")
	}
	return err
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
	_, _ = r.sessions.hold(made.ID).adopt(box.guest) // if it has been ended by now, its next call is told
	return made, nil
}

// findSession returns the owner's session: by id or name or, without either, the one of the connection,
// which is made if it has none.
func (r *run) findSession(ctx context.Context, idOrName string) (core.Session, error) {
	if idOrName != "" {
		return r.session(ctx, r.tenant, idOrName)
	}
	leave, err := r.sessions.turn(ctx, r.client, r.settings.Sessions.MaxQueued)
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
		if found.Lost, err = s.expire(ctx, found); err != nil {
			return core.Session{}, err
		}
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

// expire ends a session whose time is over, and tells why; "" if somebody has used it meanwhile.
func (s *Service) expire(ctx context.Context, session core.Session) (lost string, err error) {
	now := s.ports.Now()
	why := fmt.Sprintf("it had not been used for %s", session.IdleTimeout)
	if now.After(session.Created.Add(session.MaxAge)) {
		why = fmt.Sprintf("it had reached the age of %s", session.MaxAge)
	}
	return s.lose(ctx, session, why, func(kept core.Session) bool { return now.After(kept.Expires()) })
}

// lose marks a session as over, if that holds, and tells why it is, if it is. Its box, if there is one still,
// goes in the background.
func (s *Service) lose(ctx context.Context, session core.Session, why string, holds func(core.Session) bool) (lost string, err error) {
	marked, lost, err := s.mark(ctx, session.ID, why, holds)
	if err != nil {
		s.ports.Log.Warn("the end of a session could not be kept", "session", session.ID, "error", err)
	}
	if lost != "" {
		s.sessions.drop(session.ID)
	}
	if !marked {
		return lost, err
	}
	if on, err := s.place(session.Backend); err == nil {
		s.boxes.discard(on, session.Box)
	}
	return lost, nil
}

// anyway is for what holds of a session whatever others do with it: its box is gone.
func anyway(core.Session) bool { return true }

// mark has the store know that a session is over, if that holds as the store has it now. One that was over or
// removed before is not marked again.
func (s *Service) mark(ctx context.Context, id, why string, holds func(core.Session) bool) (marked bool, lost string, err error) {
	err = s.ports.Sessions.Update(ctx, id, func(kept *core.Session) error {
		if marked = kept.Lost == "" && holds(*kept); marked {
			kept.Lost, kept.Used = why, s.ports.Now()
		}
		lost = kept.Lost
		return nil
	})
	if errors.Is(err, core.ErrNotFound) {
		return false, why, nil
	}
	if err != nil {
		return false, "", err
	}
	return marked, lost, nil
}
