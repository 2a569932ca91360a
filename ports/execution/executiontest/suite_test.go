package executiontest_test

import (
	"testing"

	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

func itself(b execution.Backend) execution.Backend { return b }

func TestFakeKeepsEveryPromise(t *testing.T) {
	executiontest.Run(t, func(*testing.T) executiontest.Env {
		return executiontest.FakeEnv(executiontest.NewFake(), itself)
	})
}

// TestBoxesThatEndByThemselves: where nothing can stop a box, its time ends it.
func TestBoxesThatEndByThemselves(t *testing.T) {
	var stops []executiontest.Check
	for _, c := range executiontest.Checks() {
		env := executiontest.FakeEnv(executiontest.NewFake(), itself)
		env.Hooks.Stop = nil
		if executiontest.MissingHook(c.Run(t.Context(), env)) == "Stop" {
			stops = append(stops, c)
		}
	}
	if len(stops) != 3 {
		t.Errorf("%d checks stop a box", len(stops))
	}
	for _, c := range stops {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			env := executiontest.FakeEnv(executiontest.NewFake(), itself)
			env.Hooks.Stop, env.Hooks.Expires = nil, true
			if err := c.Run(t.Context(), env); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNamesOfChecksAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range executiontest.Checks() {
		if seen[c.Name] || c.Clause == "" {
			t.Errorf("%s: named twice, or without its sentence", c.Name)
		}
		seen[c.Name] = true
	}
}
