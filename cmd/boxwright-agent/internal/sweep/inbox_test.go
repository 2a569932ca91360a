package sweep

import (
	"testing"

	"github.com/boxwright/boxwright/core"
)

// Nothing here calls what kills: a mistake in it would end the machine that tests run on.
func TestOnlyAFirstProcessKills(t *testing.T) {
	for pid, want := range map[int]core.Kind{0: core.ErrUnsupported, 1: "", 2: core.ErrUnsupported, 4_000_000: core.ErrUnsupported} {
		if err := inBox(pid); core.KindOf(err) != want {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}
