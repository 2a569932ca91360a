package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Bounds of installations into a session.
const (
	maxKeptInstalls = 20          // of one session; older ones are forgotten
	installWait     = time.Second // between two writes of the installer's last lines
	installLines    = 10
)

// BeginInstall begins to add packages to a session, and waits for the end at most so long. What is not there by then
// goes on by itself; InstallStatus tells how it ends.
func (s *Service) BeginInstall(ctx context.Context, owner, idOrName string, packages []string, wait time.Duration) (core.PackageInstall, error) {
	requirements, err := s.settings.pickRequirements(packages)
	if err != nil {
		return core.PackageInstall{}, err
	}
	if len(requirements) == 0 {
		return core.PackageInstall{}, core.Errorf(core.ErrInvalid, "no package is named").WithHint(`package_name is such as "pandas" or ["pandas", "requests>=2"]`)
	}
	session, err := s.session(ctx, owner, idOrName)
	if err != nil {
		return core.PackageInstall{}, err
	}
	begun := core.PackageInstall{State: core.InstallUnderWay, Server: s.ports.Server, Started: s.ports.Now()}
	for _, r := range requirements {
		begun.Packages = append(begun.Packages, r.String())
	}
	if err := s.keepInstall(ctx, session.ID, begun); err != nil {
		return core.PackageInstall{}, err
	}
	done := s.goInstall(session, begun)
	select {
	case ended := <-done:
		return ended, nil
	case <-time.After(wait):
	case <-ctx.Done(): // it goes on: it was asked for
	}
	return s.InstallStatus(context.WithoutCancel(ctx), owner, session.ID, begun.Packages[0])
}

// goInstall installs by itself, and hands out how that ended.
func (s *Service) goInstall(session core.Session, i core.PackageInstall) <-chan core.PackageInstall {
	done := make(chan core.PackageInstall, 1)
	working, release := s.whileOpen(context.Background())
	notes := &installNotes{service: s, session: session.ID, install: i}
	s.boxes.work.do("installed packages", func() {
		defer release()
		err := safely(s.ports.Log, "installed packages", func() error {
			_, err := s.InstallInSession(working, session.Owner, session.ID, i.Packages, notes.take)
			return err
		})
		done <- notes.end(working, err)
	})
	return done
}

// installNotes keep in the store how an installation goes.
type installNotes struct {
	service *Service
	session string
	install core.PackageInstall
	lines   []string
	written time.Time
}

// take is never called twice at the same time.
func (n *installNotes) take(p core.Progress) {
	if p.Message == "" {
		return
	}
	n.lines = append(n.lines, p.Message)
	n.lines = n.lines[max(0, len(n.lines)-installLines):]
	if now := time.Now(); now.Sub(n.written) >= installWait {
		n.written = now
		n.install.Log = strings.Join(n.lines, "\n")
		n.keep(context.Background())
	}
}

// end notes how it ended. One that this server's end cut short stays under way: the next server goes on with it.
func (n *installNotes) end(working context.Context, err error) core.PackageInstall {
	n.install.Log = strings.Join(n.lines, "\n")
	if err != nil && working.Err() != nil {
		return n.install
	}
	n.install.State, n.install.Ended = core.InstallDone, n.service.ports.Now()
	if err != nil {
		n.install.State, n.install.Failure = core.InstallFailed, core.FailureOf(err)
	}
	n.keep(context.WithoutCancel(working))
	return n.install
}

func (n *installNotes) keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	err := n.service.keepInstall(ctx, n.session, n.install)
	if err != nil && !errors.Is(err, core.ErrNotFound) { // the session may have ended meanwhile
		n.service.ports.Log.Warn("how an installation goes could not be kept", "session", n.session, "error", err)
	}
}

// keepInstall keeps an installation in place of an older one of the same packages.
func (s *Service) keepInstall(ctx context.Context, session string, i core.PackageInstall) error {
	return s.ports.Sessions.Update(ctx, session, func(kept *core.Session) error {
		rest := slices.DeleteFunc(slices.Clone(kept.Installs), func(old core.PackageInstall) bool { return slices.Equal(old.Packages, i.Packages) })
		kept.Installs = append(rest[max(0, len(rest)-maxKeptInstalls+1):], i)
		return nil
	})
}

// InstallStatus tells how far a package is that was asked for. One that another server began and left behind is
// begun again.
func (s *Service) InstallStatus(ctx context.Context, owner, idOrName, name string) (core.PackageInstall, error) {
	asked, err := s.settings.pickRequirements([]string{name})
	if err != nil {
		return core.PackageInstall{}, err
	}
	session, err := s.session(ctx, owner, idOrName)
	if err != nil {
		return core.PackageInstall{}, err
	}
	for _, i := range slices.Backward(session.Installs) {
		if len(asked) == 1 && slices.ContainsFunc(i.Packages, func(text string) bool { return isOf(text, asked[0]) }) {
			return s.goOn(ctx, session, i), nil
		}
	}
	for _, text := range session.Requirements {
		if len(asked) == 1 && isOf(text, asked[0]) {
			return core.PackageInstall{Packages: []string{text}, State: core.InstallDone}, nil
		}
	}
	return core.PackageInstall{}, core.Errorf(core.ErrNotFound, "nobody has asked to install %q in this sandbox", shortened(name)).
		WithHint("install_package_in_sandbox installs it")
}

// isOf reports whether a kept requirement is of the package that is asked for: by its name alone, or word by word.
func isOf(text string, asked core.Requirement) bool {
	if text == asked.String() {
		return true
	}
	kept, err := core.ParseRequirements([]string{text})
	return err == nil && len(kept) == 1 && kept[0].Name == asked.Name && asked.String() == asked.Name
}

// recoverInstalls goes on with what servers that are gone were installing into sessions of a backend.
func (s *Service) recoverInstalls(ctx context.Context, on *place, sessions map[string]core.Session) {
	for _, session := range sessions {
		for _, i := range session.Installs {
			if session.Backend == on.name {
				s.goOn(ctx, session, i)
			}
		}
	}
}

// goOn takes an installation over from a server that is gone.
func (s *Service) goOn(ctx context.Context, session core.Session, i core.PackageInstall) core.PackageInstall {
	if i.State != core.InstallUnderWay || i.Server == s.ports.Server || s.ports.Alive(i.Server) {
		return i
	}
	i.Server = s.ports.Server
	if err := s.keepInstall(ctx, session.ID, i); err == nil {
		s.goInstall(session, i)
	}
	return i
}

// Session returns the owner's session of that id or name, which lives.
func (s *Service) Session(ctx context.Context, owner, idOrName string) (core.Session, error) {
	return s.session(ctx, owner, idOrName)
}
