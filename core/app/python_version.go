package app

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// checkPython refuses to run a program that says that it needs another version of Python than the box has.
func (r *run) checkPython(ctx context.Context, guest execution.Guest) error {
	if r.python == "" {
		return nil
	}
	exit, err := guest.Run(ctx, core.RunSpec{
		ID:      r.spec.ID + "-python",
		Argv:    []string{"python3", "-I", "-c", "import platform; print(platform.python_version())"},
		Keep:    r.spec.Keep,
		Timeout: 10 * time.Second,
		Output:  core.OutputLimits{Head: 100},
	}, nil)
	if err != nil {
		return err
	}
	version, ok := core.ParseVersion(string(exit.Stdout.Head))
	if !ok {
		return nil // it is not for us to say that there is no Python
	}
	fits, err := core.Admits(r.python, version)
	if err != nil || fits {
		return err
	}
	return core.Errorf(core.ErrInvalid, "the code requires Python %s, and %s has another", r.python, r.record.Image.Ref).
		WithHint("name an image in which Python has a version that fits")
}
