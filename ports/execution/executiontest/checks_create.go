package executiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// settleTime is the time that what must not happen gets to happen.
const settleTime = 300 * time.Millisecond

// settled waits for that.
func settled(ctx context.Context) error {
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func createChecks() []Check {
	return []Check{
		{"create/answers", "Create returns a started box whose agent can be dialled", checkCreateAnswers},
		{"create/missing-image", "A missing image is core.ErrNotFound", checkCreateMissingImage},
		{"create/digest", "With a digest, the box is made from exactly that content, whatever the image's name means by now; it is core.ErrNotFound when it is gone", checkCreateDigest},
		{"create/missing-volume", "A missing volume is core.ErrNotFound, and is not made", checkCreateMissingVolume},
		{"create/bad-limits", "Limits that core.Limits.Validate refuses are core.ErrInvalid", checkCreateBadLimits},
		{"create/bad-spec", "A spec that no engine could carry out is core.ErrInvalid", checkCreateBadSpec},
		{"create/unenforced-refuse", "A limit that would not hold is core.ErrUnsupported", checkCreateRefuse},
		{"create/unenforced-warn", "A limit that would not hold is a warning in the box if the spec says so", checkCreateWarn},
		{"create/all-or-nothing", "Create is all or nothing: if any step fails, nothing is left", checkCreateAllOrNothing},
		{"create/cancelled", "A Create whose ctx ends leaves nothing", checkCreateCancelled},
		{"create/inside", "Inside, the agent is PID 1, all runs as core.GuestUID without capabilities, the root file system is read-only, and the work, home and temporary folders are writable", checkCreateInside},
		{"create/network", "A box without a network has no interface but loopback", checkCreateNetwork},
		{"create/mounts", "A volume is writable by the box's user exactly if the mount says so", checkCreateMounts},
	}
}

func checkCreateAnswers(ctx context.Context, env Env) error {
	before := time.Now().Add(-time.Hour) // an engine may have a clock of its own
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	if box.ID == "" || box.Image != env.Image || box.State != core.BoxRunning || box.Created.Before(before) {
		return fmt.Errorf("the box came back as %+v", box)
	}
	if box.Labels != env.labels(core.PurposeRun) {
		return fmt.Errorf("the labels came back as %+v", box.Labels)
	}
	return env.answers(ctx, box.ID)
}

func checkCreateMissingImage(ctx context.Context, env Env) error {
	_, err := env.create(ctx, func(s *core.BoxSpec) { s.Image = "boxwright-test/not-there:1" })
	if err := wantKind("a missing image", err, core.ErrNotFound); err != nil {
		return err
	}
	return env.nothingLeft(ctx)
}

func checkCreateDigest(ctx context.Context, env Env) error {
	image, err := env.Backend.EnsureImage(ctx, env.Image, core.PullNever, nil)
	if err != nil {
		return err
	}
	for _, name := range []string{env.Image, "boxwright-test/not-there:1"} {
		box, err := env.create(ctx, func(s *core.BoxSpec) { s.Image, s.Digest = name, image.Digest })
		if err != nil {
			return fmt.Errorf("from the content of %s as %s: %w", env.Image, name, err)
		}
		found, _, err := env.find(ctx, box.ID)
		if err != nil || box.Image != name || found.Image != name {
			return errors.Join(fmt.Errorf("the name %s came back as %s and is listed as %s", name, box.Image, found.Image), err)
		}
		if err := errors.Join(env.answers(ctx, box.ID), env.Backend.Destroy(ctx, box.ID)); err != nil {
			return err
		}
	}
	_, err = env.create(ctx, func(s *core.BoxSpec) { s.Digest = "sha256:" + strings.Repeat("0", 64) })
	if err := wantKind("content that is gone", err, core.ErrNotFound); err != nil {
		return err
	}
	return env.nothingLeft(ctx)
}

func checkCreateMissingVolume(ctx context.Context, env Env) error {
	name := env.volumeName()
	_, err := env.create(ctx, func(s *core.BoxSpec) {
		s.Mounts = []core.Mount{{Volume: name, Path: core.GuestEnvironments}}
	})
	if err := wantKind("a missing volume", err, core.ErrNotFound); err != nil {
		return err
	}
	if _, made, err := env.findVolume(ctx, name); err != nil || made {
		return errors.Join(errors.New("the volume was made"), err)
	}
	return env.nothingLeft(ctx)
}

func checkCreateBadLimits(ctx context.Context, env Env) error {
	for _, change := range []func(*core.Limits){
		func(l *core.Limits) { *l = core.Limits{} },
		func(l *core.Limits) { l.MemoryBytes = -1 },
		func(l *core.Limits) { l.CPUs = 0 },
		func(l *core.Limits) { l.PIDs = -1 },
		func(l *core.Limits) { l.DiskBytes = 0 },
	} {
		limits := env.limits()
		change(&limits)
		_, err := env.create(ctx, func(s *core.BoxSpec) { s.Limits = limits })
		if err := wantKind(fmt.Sprintf("limits %+v", limits), err, core.ErrInvalid); err != nil {
			return err
		}
	}
	return env.nothingLeft(ctx)
}

func checkCreateBadSpec(ctx context.Context, env Env) error {
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	for what, change := range map[string]func(*core.BoxSpec){
		"an unknown network":  func(s *core.BoxSpec) { s.Network = "host" },
		"a host path":         func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: "/etc", Path: "/x"}} },
		"a relative path":     func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: "x"}} },
		"the root":            func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: "/"}} },
		"a path with ..":      func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: "/work/../etc"}} },
		"the agent's folder":  func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestBin}} },
		"below the agent's":   func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestBin + "/x"}} },
		"the agent itself":    func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestAgent}} },
		"above the agent's":   func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: "/opt/boxwright"}} },
		"high above it":       func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: volume.Name, Path: "/opt"}} },
		"a short digest":      func(s *core.BoxSpec) { s.Digest = "sha256:00" },
		"a name for a digest": func(s *core.BoxSpec) { s.Digest = env.Image },
		"a volume with slash": func(s *core.BoxSpec) { s.Mounts = []core.Mount{{Volume: "a/b", Path: "/x"}} },
	} {
		_, err := env.create(ctx, change)
		if err := wantKind(what, err, core.ErrInvalid); err != nil {
			return err
		}
	}
	return env.nothingLeft(ctx)
}

func checkCreateRefuse(ctx context.Context, env Env) error {
	if env.Hooks.Weak == nil {
		return skipError{"Weak"}
	}
	weak, limit, err := env.Hooks.Weak(ctx)
	if err != nil {
		return err
	}
	env.Backend = weak
	_, err = env.create(ctx, func(s *core.BoxSpec) { s.Unenforced = core.UnenforcedRefuse })
	if err := wantKind("a "+string(limit)+" limit that does not hold", err, core.ErrUnsupported); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), string(limit)) {
		return fmt.Errorf("the error does not name the limit: %w", err)
	}
	return env.nothingLeft(ctx)
}

func checkCreateWarn(ctx context.Context, env Env) error {
	if env.Hooks.Weak == nil {
		return skipError{"Weak"}
	}
	weak, limit, err := env.Hooks.Weak(ctx)
	if err != nil {
		return err
	}
	env.Backend = weak
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	named := func(warning string) bool { return strings.Contains(warning, string(limit)) }
	if !slices.ContainsFunc(box.Warnings, named) {
		return fmt.Errorf("no warning names the %s limit: %q", limit, box.Warnings)
	}
	return env.Backend.Destroy(ctx, box.ID)
}

func checkCreateAllOrNothing(ctx context.Context, env Env) error {
	if env.Hooks.Fail == nil {
		return skipError{"Fail"}
	}
	const most = 50
	for n := 1; n <= most; n++ {
		volume, err := env.volume(ctx)
		if err != nil {
			return err
		}
		fired := env.Hooks.Fail(n)
		box, err := env.create(ctx, func(s *core.BoxSpec) {
			s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestCache, Writable: true}}
		})
		hit := fired()
		if err == nil {
			// Some steps may fail without harm; after the last one, none does.
			if err := errors.Join(env.answers(ctx, box.ID), env.Backend.Destroy(ctx, box.ID)); err != nil || !hit {
				return err
			}
			continue
		}
		if !hit {
			return fmt.Errorf("without a failing step: %w", err)
		}
		if err := env.nothingLeft(ctx); err != nil {
			return fmt.Errorf("after a failure at step %d: %w", n, err)
		}
	}
	return fmt.Errorf("there is no end of steps after %d", most)
}

func checkCreateCancelled(ctx context.Context, env Env) error {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond} {
		cut, cancel := context.WithTimeout(ctx, after)
		box, err := env.create(cut, nil)
		cancel()
		if err == nil { // it was faster
			if err := env.Backend.Destroy(ctx, box.ID); err != nil {
				return err
			}
			continue
		}
		if err := wantKind("a ctx that ended", err, core.ErrTimeout); err != nil {
			return err
		}
		if err := env.nothingLeft(ctx); err != nil {
			return fmt.Errorf("after %v: %w", after, err)
		}
		if err := settled(ctx); err != nil {
			return err
		}
		if err := env.nothingLeft(ctx); err != nil {
			return fmt.Errorf("later: %w", err)
		}
	}
	return nil
}

func checkCreateInside(ctx context.Context, env Env) error {
	if env.Hooks.Inside == nil {
		return skipError{"Inside"}
	}
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	folders := []string{core.GuestWork, core.GuestHome, core.GuestTmp, "/", "/etc", core.GuestBin}
	in, err := env.inside(ctx, box.ID, folders...)
	if err != nil {
		return err
	}
	switch {
	case in.PID != 1:
		return fmt.Errorf("the agent is process %d", in.PID)
	case in.UID != core.GuestUID || in.GID != core.GuestGID:
		return fmt.Errorf("it runs as %d:%d", in.UID, in.GID)
	case strings.Trim(in.Caps, "0") != "":
		return fmt.Errorf("it has the capabilities %s", in.Caps)
	case !in.NoNewPrivs:
		return errors.New("it could get new privileges")
	case in.RootMounted != "ro":
		return fmt.Errorf("the root file system is %s", in.RootMounted)
	}
	for i, folder := range folders {
		if want := i < 3; in.Writable[folder] != want {
			return fmt.Errorf("%s is writable: %v", folder, in.Writable[folder])
		}
	}
	return nil
}

func checkCreateNetwork(ctx context.Context, env Env) error {
	if env.Hooks.Inside == nil {
		return skipError{"Inside"}
	}
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	in, err := env.inside(ctx, box.ID)
	if err != nil {
		return err
	}
	for _, name := range in.Interfaces {
		if name != "lo" {
			return fmt.Errorf("it has the interfaces %q", in.Interfaces)
		}
	}
	return nil
}

func checkCreateMounts(ctx context.Context, env Env) error {
	if env.Hooks.Inside == nil {
		return skipError{"Inside"}
	}
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	mounting := func(writable bool) func(*core.BoxSpec) {
		return func(s *core.BoxSpec) {
			s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestEnvironments, Writable: writable}}
		}
	}
	earlier, err := env.create(ctx, mounting(false))
	if err != nil {
		return err
	}
	for _, step := range []struct{ writable, seen bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		box, err := env.create(ctx, mounting(step.writable))
		if err != nil {
			return err
		}
		if err := checkMount(ctx, env, box, step.writable, step.seen); err != nil {
			return err
		}
		if err := env.Backend.Destroy(ctx, box.ID); err != nil {
			return err
		}
	}
	return checkMount(ctx, env, earlier, false, true)
}

// checkMount looks at the volume from inside a box. seen is whether another box's file is there.
func checkMount(ctx context.Context, env Env, box core.Box, writable, seen bool) error {
	in, err := env.inside(ctx, box.ID, core.GuestEnvironments)
	if err != nil {
		return err
	}
	if got := in.Writable[core.GuestEnvironments]; got != writable {
		return fmt.Errorf("mounted with writable %v, it is writable: %v", writable, got)
	}
	if got := in.Seen[core.GuestEnvironments]; got != seen {
		return fmt.Errorf("a file of another box is seen: %v, want %v", got, seen)
	}
	return nil
}
