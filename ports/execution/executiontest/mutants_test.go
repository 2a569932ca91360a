package executiontest_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest/mutants"
)

// notAlone lists checks that no backend can fail without failing another one, or whose mutants.Mutant
// is a change of what is inside a box: their teeth are shown in TestInsideTeeth.
func notAlone() []string {
	return []string{"create/inside", "create/network", "create/mounts", "destroy/gone", "destroy/stopped"}
}

func TestEachMutantFailsExactlyItsCheck(t *testing.T) {
	all := mutants.All()
	for _, c := range executiontest.Checks() {
		if all[c.Name] == nil && !slices.Contains(notAlone(), c.Name) {
			t.Errorf("no mutant breaks %s: %s", c.Name, c.Clause)
		}
	}
	for name, breaker := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed := failures(t, breaker); !slices.Equal(failed, []string{name}) {
				t.Errorf("it failed %q", failed)
			}
		})
	}
}

// failures runs all checks, and names those that a backend fails.
func failures(t *testing.T, breaker func(execution.Backend) mutants.Mutant) []string {
	t.Helper()
	return failuresIn(t, func() executiontest.Env {
		return executiontest.FakeEnv(executiontest.NewFake(), func(b execution.Backend) execution.Backend { return breaker(b) })
	})
}

func failuresIn(t *testing.T, newEnv func() executiontest.Env) []string {
	t.Helper()
	var mu sync.Mutex
	var failed []string
	var all sync.WaitGroup
	for _, c := range executiontest.Checks() {
		all.Go(func() {
			env := newEnv()
			env.Patience = time.Second
			err := c.Run(t.Context(), env)
			if executiontest.Skipped(err) {
				t.Errorf("%s: %v", c.Name, err)
			} else if err != nil {
				t.Logf("%s: %v", c.Name, err)
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, c.Name)
			}
		})
	}
	all.Wait()
	slices.Sort(failed)
	return failed
}

// TestInsideTeeth lies about what a box looks like from inside.
func TestInsideTeeth(t *testing.T) {
	type lie func(*executiontest.Inside)
	for want, lies := range map[string][]lie{
		"create/inside": {
			func(in *executiontest.Inside) { in.PID = 7 },
			func(in *executiontest.Inside) { in.UID = 0 },
			func(in *executiontest.Inside) { in.Caps = "00000000a80425fb" },
			func(in *executiontest.Inside) { in.NoNewPrivs = false },
			func(in *executiontest.Inside) { in.RootMounted = "rw" },
			func(in *executiontest.Inside) { in.Writable[core.GuestHome] = false },
			func(in *executiontest.Inside) { in.Writable["/etc"] = true },
		},
		"create/network": {func(in *executiontest.Inside) { in.Interfaces = []string{"lo", "eth0"} }},
		"create/mounts": {
			func(in *executiontest.Inside) { in.Writable[core.GuestEnvironments] = true },
			func(in *executiontest.Inside) { in.Seen[core.GuestEnvironments] = false },
		},
	} {
		for i, change := range lies {
			failed := failuresIn(t, func() executiontest.Env {
				env := executiontest.FakeEnv(executiontest.NewFake(), itself)
				honest := env.Hooks.Inside
				env.Hooks.Inside = func(ctx context.Context, s io.ReadWriteCloser, folders []string) (executiontest.Inside, error) {
					in, err := honest(ctx, s, folders)
					if err == nil {
						change(&in)
					}
					return in, err
				}
				return env
			})
			if !slices.Equal(failed, []string{want}) {
				t.Errorf("%s, lie %d: it failed %q", want, i, failed)
			}
		}
	}
}

// TestDestroyTeeth shows that a Destroy that does nothing is noticed: more than one check does.
func TestDestroyTeeth(t *testing.T) {
	failed := failures(t, mutants.Undying)
	for _, name := range []string{"destroy/gone", "destroy/stopped"} {
		if !slices.Contains(failed, name) {
			t.Errorf("%s did not notice it", name)
		}
	}
}
