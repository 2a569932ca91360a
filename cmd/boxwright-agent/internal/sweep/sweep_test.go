package sweep_test

import (
	"errors"
	"testing"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/sweep"
	"github.com/boxwright/boxwright/core"
)

// TestRefusesToSweepAMachine matters more than any other: what it prevents would kill everything of the
// user's. What a sweeper does in a box is tested in one, in adapters/guest.
func TestRefusesToSweepAMachine(t *testing.T) {
	if _, err := sweep.New(); !errors.Is(err, core.ErrUnsupported) || core.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}
