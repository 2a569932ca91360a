package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestKindsOfErrors: what passes is told from what does not.
func TestKindsOfErrors(t *testing.T) {
	for text, want := range map[string]core.Kind{
		"Error response from daemon: symlink /proc/mounts /var/lib/docker/overlay2/x-init/merged/etc/mtab: no such file or directory": core.ErrUnavailable,
		"symlink /proc/mounts /x/etc/mtab: permission denied":                                                                         core.ErrInternal,
		"write /x: no space left on device":                                                                                           core.ErrExhausted,
		"something else":                                                                                                              core.ErrInternal,
	} {
		err := (&engine{}).fail(t.Context(), errors.New(text), "the box could not be made")
		if core.KindOf(err) != want || strings.Contains(core.HintOf(err), "try again") != (want == core.ErrUnavailable) {
			t.Errorf("%s: %v is %s, want %s", text, err, core.KindOf(err), want)
		}
	}
}
