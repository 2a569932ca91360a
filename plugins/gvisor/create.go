package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/execstream"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// retryPause is between two tries of a clean-up.
const retryPause = 5 * time.Millisecond

// record is what is known of a box; it lies beside its bundle.
type record struct {
	Image   string            `json:"image"`
	Labels  map[string]string `json:"labels"`
	Created time.Time         `json:"created"`
	Volumes []string          `json:"volumes"`
	Agent   string            `json:"agent"`  // the name of its folder
	Digest  string            `json:"digest"` // of the image, without "sha256:"
}

// Create implements execution.Backend.
func (b *Backend) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	r, err := b.usable(ctx)
	if err != nil {
		return core.Box{}, err
	}
	if err := spec.Validate(); err != nil {
		return core.Box{}, err
	}
	warned, err := b.checkHeld(spec)
	if err != nil {
		return core.Box{}, err
	}
	if spec.Network == core.NetworkFull && b.tunnel() == "" {
		return core.Box{}, core.Errorf(core.ErrUnsupported, "a box with a network needs slirp4netns, which this machine does not have").
			WithHint("install the package slirp4netns")
	}
	box, err := patience.Settle(ctx, &b.work, func(workCtx context.Context) (core.Box, error) {
		return b.create(ctx, workCtx, r, spec)
	}, func(workCtx context.Context, box core.Box) {
		b.discard(workCtx, box.ID)
	})
	box.Warnings = append(box.Warnings, warned...)
	return box, err
}

// create makes the box, or leaves nothing. It stops between two steps when the caller's ctx
// ends; the steps themselves run under workCtx.
func (b *Backend) create(caller, workCtx context.Context, r *runsc, spec core.BoxSpec) (core.Box, error) {
	from, err := b.originOf(workCtx, spec)
	if err != nil {
		return core.Box{}, err
	}
	id, made := newID(), time.Now().UTC()
	bundle := plan(spec, b.order(id, r, from))
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"record", func() error { return b.reserve(workCtx, id, spec, from, made) }},
		{"bundle", func() error { return b.writeBundle(id, bundle) }},
		{"start", func() error { return b.start(workCtx, id, r, spec, bundle) }},
	} {
		err := b.before(step.name)
		if caller.Err() != nil {
			err = core.ContextError(caller)
		}
		if err == nil {
			err = fail(workCtx, step.do(), "a box of %s could not be made", spec.Image)
		}
		if err == nil && caller.Err() != nil {
			err = core.ContextError(caller)
		}
		if err != nil {
			b.discard(workCtx, id)
			return core.Box{}, err
		}
	}
	return core.Box{ID: id, Image: spec.Image, Labels: spec.Labels, State: core.BoxRunning, Created: made}, nil
}

func (b *Backend) order(id string, r *runsc, from origin) order {
	return order{
		ID: id, Gofers: r.gofers, CanWait: r.canWait && followsThreads(), Platform: b.settings.Platform, Folders: b.folders,
		Root: from.root, Binds: from.binds, Masks: from.masks, Env: from.env, Agent: from.agent,
		UID: b.machine.uid, GID: b.machine.gid,
		Limits: b.limits(), Cgroups: b.machine.cgroups, MaxCPUs: float64(b.machine.cpus),
	}
}

// reserve writes the box's record, before there is anything else of it. Volumes that it mounts, and
// its image, cannot be removed from now on.
func (b *Backend) reserve(ctx context.Context, id string, spec core.BoxSpec, from origin, made time.Time) error {
	unlock, err := lock(ctx, b.folders.volumes())
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := b.readImage(spec.Image, from.image); err != nil {
		return err
	}
	rec := record{Image: spec.Image, Labels: spec.Labels.Map(), Created: made, Agent: filepath.Base(from.agent), Digest: from.image}
	for _, m := range spec.Mounts {
		if _, err := b.readVolume(m.Volume); err != nil {
			return err
		}
		rec.Volumes = append(rec.Volumes, m.Volume)
	}
	return b.writeRecord(id, rec)
}

// writeRecord makes the box's folder with its record in it: a folder without one would be nobody's.
func (b *Backend) writeRecord(id string, rec record) error {
	if err := clearTemporary(b.folders.boxes()); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(b.folders.boxes(), temporary+"*")
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(temp, filepath.Base(b.folders.record(id))), rec); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return os.Rename(temp, b.folders.box(id))
}

func (b *Backend) writeBundle(id string, r request) error {
	dir := b.folders.box(id)
	if r.DNS != "" {
		if err := writeFile(filepath.Join(dir, "resolv.conf"), []byte(r.DNS), 0o644); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, "config.json"), r.Spec)
}

// start runs runsc, which leaves the box running, with a first stream to its agent: an exec for one would cost as
// much time as half a box.
func (b *Backend) start(ctx context.Context, id string, r *runsc, spec core.BoxSpec, bundle request) error {
	ours, theirs, err := execstream.Pair()
	if err != nil {
		return err
	}
	b.first.Put(id, ours)
	if spec.Network == core.NetworkFull {
		err = b.startInTunnel(ctx, id, r, bundle, theirs)
	} else {
		err = run(ctx, bundle.StartCPUs, r.path, bundle.Args, theirs)
	}
	_ = theirs.Close() // the box has its own
	if err == nil && bundle.CPUs < bundle.StartCPUs {
		return b.keepOn(id, bundle.CPUs)
	}
	if err != nil && ctx.Err() == nil {
		err = explain(err, filepath.Join(b.folders.box(id), "runsc.log"))
	}
	return err
}

// keepOn keeps a box that has just been started, and in which nothing of the client's runs yet, to its processors.
// Without its kernel among them, that would hold nothing.
func (b *Backend) keepOn(id string, cpus int) error {
	var pids []int
	all := b.processes()
	for _, p := range all {
		if p.box == id && !p.tunnel {
			pids = append(pids, p.pid)
		}
	}
	if !running(all)[id] {
		return core.Errorf(core.ErrInternal, "the kernel of the box was not found, so that its limit of %d processors does not hold", cpus)
	}
	return keepOn(pids, cpus)
}

// explain adds what runsc logged of its failure.
func explain(err error, log string) error {
	raw, _ := os.ReadFile(log) //nolint:gosec // below the backend's own folder
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	last := lines[len(lines)-1]
	var entry struct{ Msg string }
	if json.Unmarshal([]byte(last), &entry) == nil && entry.Msg != "" {
		last = entry.Msg
	}
	const most = 500
	if len(last) > most {
		last = last[:most] + "…"
	}
	if last == "" {
		return err
	}
	return core.Errorf(core.ErrInternal, "runsc failed: %s", strings.ToValidUTF8(last, "�"))
}

// discard removes what there is of a box, however its caller's ctx is doing. What cannot be
// removed now has its record, and is found by a later sweep.
func (b *Backend) discard(ctx context.Context, id string) {
	ctx, cancel := patience.Slow(context.WithoutCancel(ctx))
	defer cancel()
	_ = b.remove(ctx, id)
}
