// Package dependency is the port to what installs packages, and to the index of what is installed.
//
// Making boxes and volumes for it is the use cases' part (core/app); this port only knows how to
// install requirements from inside an installer box, and how to remember environments.
package dependency

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Installer installs requirements of one language from inside an installer box.
type Installer interface {
	// Fingerprint names everything beyond requirements and image that decides what is
	// installed: indexes, policy. It holds no secret.
	Fingerprint() string

	// UsesCache reports whether the installer box gets the shared download cache. Installs
	// that run code of packages must not.
	UsesCache() bool

	// Private reports whether what it installs comes from where credentials are needed. What one tenant
	// installed is then not another's.
	Private() bool

	// Network is what the installer box has to reach.
	Network() core.Network

	// Prepare looks what there is in an installer box that waits to be used. It reaches no network, and puts nothing
	// secret into the box.
	Prepare(ctx context.Context, guest execution.Guest) (core.Ready, error)

	// Install puts the requirements into core.GuestEnvironment of the box that guest reaches. ready is what Prepare
	// said about the box; its zero value is always right. It need not compile them. If it fails, the error is core.ErrDependency and carries the installer's last lines;
	// what it left in the box's volume must not be used.
	Install(ctx context.Context, guest execution.Guest, ready core.Ready, requirements []core.Requirement, progress func(core.Progress)) (core.Installed, error)

	// Compile compiles the bytecode of what is installed in the folder source of the box that guest reaches, into
	// the same places of core.GuestEnvironment there. Without it the packages work as well, only slower: what
	// cannot be compiled is left out.
	Compile(ctx context.Context, guest execution.Guest, source string) error

	// Trims reports whether the shared download cache has bounds.
	Trims() bool

	// Trim keeps the shared download cache, which the box that guest reaches has, within its bounds.
	Trim(ctx context.Context, guest execution.Guest) error

	// Versions is Catalog.Look for the index that the package manager of the box asks by itself. The box has network.
	Versions(ctx context.Context, guest execution.Guest, name string) (core.Package, error)
}

// Index remembers the environments of an installation. All methods may be called at the same time, by several
// processes too where they share it. It keeps times to the nanosecond.
type Index interface {
	// Get returns the environment put last under key, or core.ErrNotFound.
	Get(ctx context.Context, key string) (core.Environment, error)

	// Put stores an environment under its key, in place of any other. It is whole or absent. One that cannot be
	// kept (see CheckEnvironment) is core.ErrInvalid and changes nothing.
	Put(ctx context.Context, environment core.Environment) error

	// Touch notes that the environment was used at that time: Used becomes it, unless it is later already. Nothing
	// else changes. An unknown key is core.ErrNotFound.
	Touch(ctx context.Context, key string, at time.Time) error

	// Delete forgets the environment. An unknown key is no error.
	Delete(ctx context.Context, key string) error

	// List returns all environments, by key, as Brief has them: locks may be long.
	List(ctx context.Context) ([]core.Environment, error)
}
