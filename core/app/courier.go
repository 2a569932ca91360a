package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// maxEntries bounds the files, folders and links of one environment.
const maxEntries = 300_000

// keep has the courier copy what is in the volume into the zone, and enters the environment into the index. Until
// then its folder is there as remains, which a sweep removes.
func (i *install) keep(ctx context.Context, volume core.Volume, e core.Environment) (core.Environment, error) {
	remains := e.Remains(i.ports.Now())
	if err := i.ports.Index.Put(ctx, remains); err != nil {
		return core.Environment{}, err
	}
	kept, err := i.courier(ctx, i.place, i.image, i.zone, []core.Mount{{Volume: volume.Name, Path: core.GuestEnvironment}},
		"keep", "--max-bytes", strconv.FormatInt(i.settings.environmentSize(), 10), "--max-entries", strconv.Itoa(maxEntries),
		core.GuestEnvironment, e.Path())
	if err != nil {
		return core.Environment{}, err
	}
	e.Size = kept.Bytes
	if err := i.ports.Index.Put(ctx, e); err != nil {
		return core.Environment{}, err
	}
	i.ports.Log.Info("packages were installed", "packages", strings.Join(e.Names, " "), "bytes", e.Size, "backend", e.Backend)
	if err := i.ports.Index.Delete(ctx, remains.Key); err != nil {
		i.ports.Log.Warn("the index keeps what it should forget; a sweep tries again", "key", remains.Key, "error", err)
	}
	return e, nil
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

// courier runs the agent in a box that may write to a zone and in which nothing else runs: no interpreter, no
// program of the image, no network.
func (s *Service) courier(ctx context.Context, on *place, image core.Image, zone core.Mount, mounts []core.Mount, args ...string) (kept core.Kept, err error) {
	zone.Writable = true
	spec := core.BoxSpec{
		Image: image.Ref, Digest: image.Digest, Limits: s.settings.InstallSize, Mounts: append(mounts, zone),
		Labels: core.Labels{Purpose: core.PurposeKeep}, Unenforced: core.UnenforcedWarn,
	}
	err = s.within(ctx, on, spec, func(guest execution.Guest) error {
		exit, err := guest.Run(ctx, core.RunSpec{
			ID: "keep", Argv: append([]string{core.GuestAgent}, args...), Timeout: s.settings.InstallLimit,
			Output: core.OutputLimits{Head: 16 << 10, Tail: 1 << 10},
		}, nil)
		if err == nil {
			kept, err = readKept(exit)
		}
		return err
	})
	return kept, err
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
