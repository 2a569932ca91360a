package executiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/boxwright/boxwright/core"
)

func infoChecks() []Check {
	return []Check{{
		Name:   "info",
		Clause: "Info tells what the backend is and, for every core.Limit, what makes it hold",
		Run:    checkInfo,
	}}
}

func checkInfo(ctx context.Context, env Env) error {
	info, err := env.Backend.Info(ctx)
	if err != nil {
		return err
	}
	if info.Name == "" || info.Engine == "" || !strings.Contains(info.Platform, "/") {
		return fmt.Errorf("it does not say what it is: %+v", info)
	}
	for _, limit := range core.AllLimits() {
		switch how := info.Limits[limit]; how {
		case core.EnforcedNot, core.EnforcedCgroup, core.EnforcedRlimit, core.EnforcedSandbox:
		default:
			return fmt.Errorf("limit %s is enforced by %q", limit, how)
		}
	}
	return nil
}

func imageChecks() []Check {
	return []Check{
		{"image/present", "EnsureImage returns once the image is in the engine", checkImagePresent},
		{"image/not-fetched", "An image that is there already is not fetched unless policy says always", checkImageNotFetched},
		{"image/always", "With policy always, the image is fetched again", checkImageAlways},
		{"image/never", "With policy never, a missing image is core.ErrNotFound", checkImageNever},
		{"image/missing", "If no registry has it, a missing image is core.ErrNotFound", checkImageMissing},
		{"image/malformed", "A malformed ref is core.ErrInvalid", checkImageMalformed},
		{"image/progress", "progress may be nil, is never called at the same time twice, and is not called after the return", checkImageProgress},
	}
}

func checkImagePresent(ctx context.Context, env Env) error {
	for _, policy := range []core.PullPolicy{core.PullMissing, core.PullNever} {
		image, err := env.Backend.EnsureImage(ctx, env.Image, policy, nil)
		if err != nil {
			return err
		}
		if image.Ref != env.Image || !strings.HasPrefix(image.Digest, "sha256:") || strings.Count(image.Platform, "/") < 1 {
			return fmt.Errorf("policy %q: it came back as %+v", policy, image)
		}
	}
	return nil
}

func checkImageNotFetched(ctx context.Context, env Env) error {
	if env.Hooks.Registry == nil {
		return skipError{"Registry"}
	}
	f, err := env.Hooks.Registry(ctx)
	if err != nil {
		return err
	}
	if _, err := env.Backend.EnsureImage(ctx, f.Ref, core.PullMissing, nil); err != nil {
		return fmt.Errorf("fetching it: %w", err)
	}
	before := f.Fetches()
	for _, policy := range []core.PullPolicy{core.PullMissing, core.PullNever} {
		if _, err := env.Backend.EnsureImage(ctx, f.Ref, policy, nil); err != nil {
			return err
		}
	}
	if after := f.Fetches(); after != before {
		return fmt.Errorf("the registry was asked %d times more", after-before)
	}
	return nil
}

func checkImageAlways(ctx context.Context, env Env) error {
	if env.Hooks.Registry == nil {
		return skipError{"Registry"}
	}
	f, err := env.Hooks.Registry(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		before := f.Fetches()
		if _, err := env.Backend.EnsureImage(ctx, f.Ref, core.PullAlways, nil); err != nil {
			return err
		}
		if f.Fetches() == before {
			return errors.New("the registry was not asked")
		}
	}
	return nil
}

func checkImageNever(ctx context.Context, env Env) error {
	_, err := env.Backend.EnsureImage(ctx, "boxwright-test/not-there:1", core.PullNever, nil)
	return wantKind("a missing image", err, core.ErrNotFound)
}

func checkImageMissing(ctx context.Context, env Env) error {
	if env.Hooks.MissingImage == "" {
		return skipError{"MissingImage"}
	}
	_, err := env.Backend.EnsureImage(ctx, env.Hooks.MissingImage, core.PullMissing, nil)
	if err := wantKind("a missing image", err, core.ErrNotFound); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), env.Hooks.MissingImage) {
		return fmt.Errorf("the error does not name the image: %w", err)
	}
	return nil
}

func checkImageMalformed(ctx context.Context, env Env) error {
	for _, ref := range []string{"", " ", "Upper/Case", "a b", "x:y:z", "name@sha256:short", "-x", "../x", "x\x00"} {
		for _, policy := range []core.PullPolicy{core.PullMissing, core.PullNever, core.PullAlways} {
			_, err := env.Backend.EnsureImage(ctx, ref, policy, nil)
			if err := wantKind(fmt.Sprintf("ref %q", ref), err, core.ErrInvalid); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkImageProgress(ctx context.Context, env Env) error {
	if env.Hooks.Registry == nil {
		return skipError{"Registry"}
	}
	f, err := env.Hooks.Registry(ctx)
	if err != nil {
		return err
	}
	var inside, wrong atomic.Int32
	var returned atomic.Bool
	progress := func(p core.Progress) {
		if inside.Add(1) > 1 || returned.Load() || p.Phase != core.PhaseImage {
			wrong.Add(1)
		}
		inside.Add(-1)
	}
	image, err := env.Backend.EnsureImage(ctx, f.Ref, core.PullMissing, progress)
	returned.Store(true)
	if err != nil {
		return err
	}
	if image.Ref != f.Ref || image.Digest == "" {
		return fmt.Errorf("it came back as %+v", image)
	}
	if err := settled(ctx); err != nil {
		return err
	}
	if n := wrong.Load(); n > 0 {
		return fmt.Errorf("%d calls of progress came at the same time, after the return or in another phase", n)
	}
	return nil
}
