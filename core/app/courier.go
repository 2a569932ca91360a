package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// maxEntries bounds the files, folders and links of one environment.
const maxEntries = 300_000

// keep has a courier copy what is in the volume into the zone, and enters the environment into the index. Until
// then its folder is there as remains, which a sweep removes.
func (i *install) keep(ctx context.Context, coming *errand, installed core.Installed) (core.Environment, error) {
	e, err := i.send(ctx, coming, installed)
	if err != nil {
		return core.Environment{}, err
	}
	if err := i.ports.Index.Put(ctx, e); err != nil {
		return core.Environment{}, err
	}
	i.ports.Log.Info("packages were installed", "packages", strings.Join(e.Names, " "), "bytes", e.Size, "backend", e.Backend)
	if remains := e.Remains(e.Created).Key; i.ports.Index.Delete(ctx, remains) != nil {
		i.ports.Log.Warn("the index keeps what it should forget; a sweep tries again", "key", remains)
	}
	return e, nil
}

// send has the courier do its errand: in the box that was made for it, or else in one that is made now. If the first
// is lost on its way, the other goes to a folder of its own, as nobody knows how far the first came.
func (i *install) send(ctx context.Context, coming *errand, installed core.Installed) (core.Environment, error) {
	if box := coming.arrive(); box != nil {
		defer box.discard() // also if it cannot go
		e, err := i.carry(ctx, installed, func(args ...string) (core.Kept, error) {
			defer box.discard() // so that there is room for another one
			return i.instruct(ctx, box.guest, args...)
		})
		lost := errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrNotFound)
		if !lost || ctx.Err() != nil {
			return e, err
		}
		i.ports.Log.Info("the box that was to keep packages was lost; another one does it", "box", box.ID, "backend", i.name, "error", err)
	}
	return i.carry(ctx, installed, func(args ...string) (core.Kept, error) { return i.courier(ctx, i.place, coming.spec, args...) })
}

// carry has what is in the volume copied to a new folder.
func (i *install) carry(ctx context.Context, installed core.Installed, do func(args ...string) (core.Kept, error)) (core.Environment, error) {
	e := i.describe(installed)
	if err := i.ports.Index.Put(ctx, e.Remains(i.ports.Now())); err != nil {
		return core.Environment{}, err
	}
	kept, err := do("keep", "--max-bytes", strconv.FormatInt(i.settings.environmentSize(), 10),
		"--max-entries", strconv.Itoa(maxEntries), core.GuestEnvironment, e.Path())
	e.Size, e.Compiled = kept.Bytes, kept.Entries == 0 // all may be in the image already
	return e, err
}

// defaultEnvironmentSize bounds one environment, in bytes, where the operator sets no bound.
const defaultEnvironmentSize = 8 << 30

// environmentSize bounds one environment, in bytes: no more than all together may have.
func (s Settings) environmentSize() int64 {
	size := cmp.Or(s.MaxEnvironment, defaultEnvironmentSize)
	if s.Keep.MaxSize > 0 {
		return min(s.Keep.MaxSize, size)
	}
	return size
}

// courierSpec is a box that may write to a zone and in which nothing but the agent runs: no interpreter, no program
// of the image, no network. What it takes along is in a volume that it can only read; "" is none.
func courierSpec(s Settings, image core.Image, zone, volume string) core.BoxSpec {
	spec := core.BoxSpec{
		Image: image.Ref, Digest: image.Digest, Limits: s.InstallSize, Unenforced: core.UnenforcedWarn,
		Labels: core.Labels{Purpose: core.PurposeKeep},
	}
	if volume != "" {
		spec.Mounts = append(spec.Mounts, core.Mount{Volume: volume, Path: core.GuestEnvironment})
	}
	spec.Mounts = append(spec.Mounts, core.Mount{Volume: zone, Path: core.GuestEnvironments, Writable: true})
	return spec
}

// courier does an errand in a box of its own.
func (s *Service) courier(ctx context.Context, on *place, spec core.BoxSpec, args ...string) (kept core.Kept, err error) {
	err = s.within(ctx, on, spec, func(box *box) error {
		kept, err = s.instruct(ctx, box.guest, args...)
		return err
	})
	return kept, err
}

// instruct has the agent of a courier's box do what the zone needs.
func (s *Service) instruct(ctx context.Context, guest execution.Guest, args ...string) (core.Kept, error) {
	exit, err := guest.Run(ctx, core.RunSpec{
		ID: "keep", Argv: append([]string{core.GuestAgent}, args...), Timeout: s.settings.InstallLimit,
		Output: core.OutputLimits{Head: 16 << 10, Tail: 1 << 10},
	}, nil)
	if err != nil {
		return core.Kept{}, err
	}
	return readKept(exit)
}

// readKept reads the courier's answer.
func readKept(exit core.Exit) (core.Kept, error) {
	var kept core.Kept
	if exit.TimedOut {
		return kept, core.Errorf(core.ErrTimeout, "keeping the packages took longer than an installation may")
	}
	line, _, whole := bytes.Cut(exit.Stdout.Head, []byte("\n"))
	if err := json.Unmarshal(line, &kept); err != nil || !whole || core.StatusOf(exit) != core.StatusOK || kept.Bytes < 0 {
		return core.Kept{}, core.Errorf(core.ErrUnavailable, "what was installed could not be kept: %.500q", exit.Stderr.Head).
			WithHint("try once more; a box that is out of memory can cause this")
	}
	return kept, kept.Failure.Err()
}

// environmentLease is how long a volume that no index knows may be one that is just being filled.
func (s Settings) environmentLease() time.Duration { return s.InstallLimit + lifeMargin }

// volumeLease is environmentLease for a volume that may have waited before.
func (s Settings) volumeLease() time.Duration { return s.Pool.MaxAge + s.environmentLease() }
