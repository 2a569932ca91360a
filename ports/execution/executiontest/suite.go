// Package executiontest checks an execution.Backend against the sentences of its port.
//
// A backend's test makes a backend and hands it to Run; a program that is no test runs Checks.
// Fake is a backend in memory that keeps every promise, for tests of what uses one.
// What is particular to an engine is tested beside its backend, not here.
package executiontest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// Env is what a check works with. Backend, Image and Instance are required.
type Env struct {
	Backend  execution.Backend
	Image    string // is in the engine
	Instance string // an installation that nobody else uses
	Hooks    Hooks
	Patience time.Duration // how long something that must happen may take; 0: 20 s
}

// Hooks do to an engine what its backend cannot. The checks that need one that is nil are
// skipped.
type Hooks struct {
	// Answers reports whether the agent answers on a fresh stream; it may write to it.
	Answers func(ctx context.Context, stream io.ReadWriteCloser) error
	// Inside looks around in a box, through a fresh stream to its agent.
	Inside func(ctx context.Context, stream io.ReadWriteCloser, folders []string) (Inside, error)
	// Stop ends the box's agent, and leaves the box.
	Stop func(ctx context.Context, box string) error
	// Expires says that the boxes' agent is the real one, which ends by itself when its time is
	// over; so a box can be stopped where Stop is nil.
	Expires bool
	// ForeignBox makes a container that is not Boxwright's.
	ForeignBox func(ctx context.Context) (Foreign, error)
	// ForeignVolume makes a volume that is not Boxwright's.
	ForeignVolume func(ctx context.Context) (Foreign, error)
	// MissingImage is a name that no registry has.
	MissingImage string
	// Registry offers an image that the engine lacks.
	Registry func(ctx context.Context) (Fetchable, error)
	// Fail makes the engine refuse the nth step of what is asked of it from now on; fired
	// tells whether there was such a step, and ends it.
	Fail func(n int) (fired func() bool)
	// Weak is a backend on an engine that cannot enforce limit.
	Weak func(ctx context.Context) (b execution.Backend, limit core.Limit, err error)
	// Down is a backend whose engine cannot be reached before up.
	Down func(ctx context.Context) (b execution.Backend, up func() error, err error)
}

// Inside is what a box looks like from inside.
type Inside struct {
	PID         int             `json:"pid"` // the agent's
	UID         int             `json:"uid"`
	GID         int             `json:"gid"`
	Caps        string          `json:"caps"` // effective capabilities, hexadecimal
	NoNewPrivs  bool            `json:"no_new_privs"`
	RootMounted string          `json:"root"`       // "ro" or "rw"
	Interfaces  []string        `json:"interfaces"` // network interfaces that are up
	Env         []string        `json:"env"`
	Writable    map[string]bool `json:"writable"` // by folder asked for: a file could be made, and is left
	Seen        map[string]bool `json:"seen"`     // by folder asked for: such a file was there already
}

// Foreign is something in the engine that is not Boxwright's.
type Foreign struct {
	ID     string
	Exists func(ctx context.Context) (bool, error)
}

// Fetchable is an image that a registry has.
type Fetchable struct {
	Ref     string
	Fetches func() int // how often anybody asked the registry for it
}

// Check is one sentence of the port.
type Check struct {
	Name   string
	Clause string
	Run    func(ctx context.Context, env Env) error
}

// skipError says that the harness lacks a hook.
type skipError struct{ hook string }

// Error implements error.
func (e skipError) Error() string { return "the harness has no hook " + e.hook }

// Skipped reports whether a check could not be made for want of a hook.
func Skipped(err error) bool { return errors.As(err, &skipError{}) }

// MissingHook names the hook for want of which a check was skipped; "" if err is another.
func MissingHook(err error) string {
	missing, ok := errors.AsType[skipError](err)
	if !ok {
		return ""
	}
	return missing.hook
}

// require is the variable that forbids to skip what a machine is set up for.
const require = "BOXWRIGHT_REQUIRE"

// Timeout bounds one check. It is an emergency brake, not a measurement.
const Timeout = 2 * time.Minute

// Checks lists every sentence, in the order of the port.
func Checks() []Check {
	var all []Check
	for _, part := range [][]Check{infoChecks(), imageChecks(), createChecks(), dialChecks(), listChecks(), destroyChecks(), volumeChecks(), commonChecks()} {
		all = append(all, part...)
	}
	return all
}

// Run makes every check a subtest, each in an environment of its own. What a check leaves is
// removed. maySkip names the checks for which the harness has no hook: where BOXWRIGHT_REQUIRE is
// set, the skip of another one is a failure.
func Run(t *testing.T, newEnv func(t *testing.T) Env, maySkip ...string) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			env := newEnv(t)
			t.Cleanup(func() {
				if err := Sweep(context.WithoutCancel(t.Context()), env); err != nil {
					t.Errorf("cleaning up: %v", err)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), Timeout)
			defer cancel()
			switch err := c.Run(ctx, env); {
			case Skipped(err) && !slices.Contains(maySkip, c.Name) && os.Getenv(require) != "":
				t.Errorf("%v, and %s is not among the checks that it may skip", err, c.Name)
			case Skipped(err):
				t.Skip(err)
			case err != nil:
				t.Errorf("%s: %v", c.Clause, err)
			}
		})
	}
}

// Sweep removes everything of the environment's installation, but volumes of the purposes to keep.
func Sweep(ctx context.Context, env Env, keep ...core.Purpose) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	have, err := env.Backend.List(ctx, env.Instance)
	if err != nil {
		return err
	}
	var all []error
	for _, box := range have.Boxes {
		all = append(all, env.Backend.Destroy(ctx, box.ID))
	}
	for _, v := range have.Volumes {
		if !slices.Contains(keep, v.Labels.Purpose) {
			all = append(all, env.Backend.RemoveVolume(ctx, v.Name))
		}
	}
	return errors.Join(all...)
}

// NewInstance is the name of an installation that nobody else uses.
func NewInstance() string { return "test-" + strings.ToLower(rand.Text()[:12]) }
