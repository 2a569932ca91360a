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

func TestNamesOfChecksAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range executiontest.Checks() {
		if seen[c.Name] || c.Clause == "" {
			t.Errorf("%s: named twice, or without its sentence", c.Name)
		}
		seen[c.Name] = true
	}
}
