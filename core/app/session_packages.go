package app

import (
	"context"
	"slices"

	"github.com/boxwright/boxwright/core"
)

// maxOnPath bounds how many environments one session has.
const maxOnPath = 64

// InstallInSession adds packages to a session that lives, and returns it. Its interpreter finds them from its next
// run on, before those that it had. progress may be nil.
func (s *Service) InstallInSession(ctx context.Context, owner, idOrName string, dependencies []string, progress func(core.Progress)) (core.Session, error) {
	requirements, err := s.settings.pickRequirements(dependencies)
	if err != nil {
		return core.Session{}, err
	}
	session, err := s.session(ctx, owner, idOrName)
	if err != nil {
		return core.Session{}, err
	}
	ctx, release := s.whileOpen(ctx)
	defer release()
	if progress == nil {
		progress = func(core.Progress) {}
	}
	r := &run{Service: s, job: job{requirements: requirements, tenant: owner}, progress: progress, clock: newStopwatch(s.ports.Now)}
	return r.addPackages(ctx, session)
}

// addPackages has the session find what is asked for and what it lacks. All that is asked for is one environment, so
// that its versions fit each other.
func (r *run) addPackages(ctx context.Context, session core.Session) (core.Session, error) {
	if has(session, r.requirements) {
		return session, nil
	}
	if len(session.PythonPath) >= maxOnPath {
		return core.Session{}, core.Errorf(core.ErrExhausted, "packages were added to the sandbox %d times, which is all that it takes", maxOnPath).
			WithHint("make a new one with sandbox_initialize and name all packages in dependencies")
	}
	var err error
	if r.place, err = r.Service.place(session.Backend); err != nil {
		return core.Session{}, err
	}
	environment, err := r.ensureEnvironment(ctx, session.Image)
	if err != nil {
		return core.Session{}, err
	}
	err = r.ports.Sessions.Update(ctx, session.ID, func(kept *core.Session) error {
		putFirst(kept, environment.Path())
		for _, requirement := range r.requirements {
			if text := requirement.String(); !slices.Contains(kept.Requirements, text) {
				kept.Requirements = append(kept.Requirements, text)
			}
		}
		return nil
	})
	if err != nil {
		return core.Session{}, err
	}
	return r.session(ctx, session.Owner, session.ID)
}

// putFirst has a folder found before those that were there.
func putFirst(session *core.Session, folder string) {
	rest := slices.DeleteFunc(slices.Clone(session.PythonPath), func(have string) bool { return have == folder })
	session.PythonPath = append([]string{folder}, rest...)
}

// has reports whether the session has all of these packages.
func has(session core.Session, asked []core.Requirement) bool {
	return !slices.ContainsFunc(asked, func(r core.Requirement) bool { return !slices.Contains(session.Requirements, r.String()) })
}

// losePackages forgets packages that are not in the zone any more: whoever asks for them gets them installed again.
func (r *run) losePackages(ctx context.Context, session core.Session) error {
	all, err := r.ports.Index.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Backend == session.Backend && slices.Contains(session.PythonPath, e.Path()) {
			if err := r.forgetEnvironment(ctx, e); err != nil {
				return err
			}
		}
	}
	err = r.ports.Sessions.Update(ctx, session.ID, func(kept *core.Session) error {
		kept.PythonPath, kept.Requirements = nil, nil
		return nil
	})
	if err != nil {
		return err
	}
	return core.Errorf(core.ErrDependency, "the packages of the sandbox are gone; the code was not run").
		WithHint("name them once more in dependencies")
}
