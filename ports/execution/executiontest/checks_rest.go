package executiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/boxwright/boxwright/core"
)

func listChecks() []Check {
	return []Check{
		{"list/labels", "List returns boxes with the labels that they were made with", checkListLabels},
		{"list/volumes", "List returns volumes with the labels that they were made with", checkListVolumes},
		{"list/instance", "List returns only what is labelled with the instance", checkListInstance},
		{"list/stopped", "List returns boxes in any state", checkListStopped},
	}
}

// someLabels fills every label, with text that an engine might mangle.
func (env Env) someLabels() core.Labels {
	return core.Labels{
		Instance: env.Instance,
		Server:   "server/2=ж",
		Tenant:   `tenant "x" = y, z`,
		Purpose:  core.PurposeSession,
		Expires:  time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC),
	}
}

func checkListLabels(ctx context.Context, env Env) error {
	box, err := env.create(ctx, func(s *core.BoxSpec) { s.Labels = env.someLabels() })
	if err != nil {
		return err
	}
	found, ok, err := env.find(ctx, box.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("the box is not there")
	case found.Labels != env.someLabels():
		return fmt.Errorf("the labels came back as %+v", found.Labels)
	case found.State != core.BoxRunning || found.Created.IsZero() || found.Image != env.Image:
		return fmt.Errorf("the box came back as %+v", found)
	}
	return nil
}

func checkListVolumes(ctx context.Context, env Env) error {
	name := env.volumeName()
	if _, err := env.Backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: env.someLabels()}); err != nil {
		return err
	}
	found, ok, err := env.findVolume(ctx, name)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("the volume is not there")
	case found.Labels != env.someLabels() || found.Created.IsZero():
		return fmt.Errorf("the volume came back as %+v", found)
	}
	return nil
}

func checkListInstance(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	have, err := env.Backend.List(ctx, env.Instance+"-other")
	if err != nil {
		return err
	}
	if len(have.Boxes)+len(have.Volumes) > 0 {
		return fmt.Errorf("another instance has %+v", have)
	}
	_, boxThere, boxErr := env.find(ctx, box.ID)
	_, volumeThere, volumeErr := env.findVolume(ctx, volume.Name)
	if !boxThere || !volumeThere {
		return errors.Join(errors.New("the instance's own are not there"), boxErr, volumeErr)
	}
	return nil
}

func checkListStopped(ctx context.Context, env Env) error {
	box, err := env.stopped(ctx)
	if err != nil {
		return err
	}
	return env.eventually(ctx, func() error {
		found, ok, err := env.find(ctx, box.ID)
		if err != nil || !ok || found.State != core.BoxStopped {
			return errors.Join(fmt.Errorf("there %v, as %+v", ok, found), err)
		}
		return nil
	})
}

func destroyChecks() []Check {
	return []Check{
		{"destroy/gone", "Destroy removes the box", checkDestroyGone},
		{"destroy/unknown", "An unknown box is no error", checkDestroyUnknown},
		{"destroy/again", "Destroy of a box that is gone, or on its way, is no error", checkDestroyAgain},
		{"destroy/stopped", "Destroy removes a stopped box", checkDestroyStopped},
		{"destroy/foreign", "A container that is not a box of Boxwright's is core.ErrNotFound and stays", checkDestroyForeign},
		{"destroy/volumes-stay", "Destroy leaves the volumes that were mounted", checkDestroyVolumesStay},
	}
}

func checkDestroyGone(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	if err := env.Backend.Destroy(ctx, box.ID); err != nil {
		return err
	}
	if _, there, err := env.find(ctx, box.ID); err != nil || there {
		return errors.Join(errors.New("it is still listed"), err)
	}
	_, err = env.Backend.Dial(ctx, box.ID)
	return wantKind("dialling it", err, core.ErrNotFound)
}

func checkDestroyUnknown(ctx context.Context, env Env) error {
	for _, id := range unknownIDs() {
		if err := env.Backend.Destroy(ctx, id); err != nil {
			return fmt.Errorf("id %q: %w", id, err)
		}
	}
	return nil
}

func checkDestroyAgain(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	if err := together(4, func(int) error { return env.Backend.Destroy(ctx, box.ID) }); err != nil {
		return err
	}
	return env.Backend.Destroy(ctx, box.ID)
}

func checkDestroyStopped(ctx context.Context, env Env) error {
	box, err := env.stopped(ctx)
	if err != nil {
		return err
	}
	if err := env.Backend.Destroy(ctx, box.ID); err != nil {
		return err
	}
	return env.nothingLeft(ctx)
}

func checkDestroyForeign(ctx context.Context, env Env) error {
	if env.Hooks.ForeignBox == nil {
		return skipError{"ForeignBox"}
	}
	foreign, err := env.Hooks.ForeignBox(ctx)
	if err != nil {
		return err
	}
	if err := wantKind("destroying it", env.Backend.Destroy(ctx, foreign.ID), core.ErrNotFound); err != nil {
		return err
	}
	_, err = env.Backend.Dial(ctx, foreign.ID)
	if err := wantKind("dialling it", err, core.ErrNotFound); err != nil {
		return err
	}
	return stays(ctx, foreign)
}

func stays(ctx context.Context, foreign Foreign) error {
	there, err := foreign.Exists(ctx)
	if err == nil && !there {
		return errors.New("it is gone")
	}
	return err
}

func checkDestroyVolumesStay(ctx context.Context, env Env) error {
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	box, err := env.create(ctx, func(s *core.BoxSpec) {
		s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestCache, Writable: true}}
	})
	if err != nil {
		return err
	}
	if err := env.Backend.Destroy(ctx, box.ID); err != nil {
		return err
	}
	if _, there, err := env.findVolume(ctx, volume.Name); err != nil || !there {
		return errors.Join(errors.New("the volume is gone"), err)
	}
	return nil
}

func volumeChecks() []Check {
	return []Check{
		{"volume/labels-stay", "An existing volume keeps its labels", checkVolumeLabelsStay},
		{"volume/name", "A malformed name is core.ErrInvalid", checkVolumeName},
		{"volume/remove", "RemoveVolume removes the volume, and an unknown one is no error", checkVolumeRemove},
		{"volume/in-use", "A volume in use by a box is core.ErrUnavailable", checkVolumeInUse},
		{"volume/foreign", "A volume that is not Boxwright's is core.ErrNotFound and stays", checkVolumeForeign},
	}
}

func checkVolumeLabelsStay(ctx context.Context, env Env) error {
	name := env.volumeName()
	first, err := env.Backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: env.someLabels()})
	if err != nil {
		return err
	}
	second, err := env.Backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: env.labels(core.PurposeCache)})
	if err != nil {
		return err
	}
	if first.Name != name || first.Labels != env.someLabels() || second.Labels != first.Labels || first.Created.IsZero() {
		return fmt.Errorf("first %+v, then %+v", first, second)
	}
	return nil
}

func checkVolumeName(ctx context.Context, env Env) error {
	for _, name := range []string{"", "/etc", "../x", "a/b", "A", "a b", "-x", ".x", "ж"} {
		_, err := env.Backend.EnsureVolume(ctx, core.Volume{Name: name, Labels: env.labels(core.PurposeCache)})
		if err := wantKind(fmt.Sprintf("name %q", name), err, core.ErrInvalid); err != nil {
			return err
		}
	}
	return nil
}

func checkVolumeRemove(ctx context.Context, env Env) error {
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	for _, time := range []string{"the first time", "again"} {
		if err := env.Backend.RemoveVolume(ctx, volume.Name); err != nil {
			return fmt.Errorf("%s: %w", time, err)
		}
	}
	if _, there, err := env.findVolume(ctx, volume.Name); err != nil || there {
		return errors.Join(errors.New("it is still listed"), err)
	}
	return nil
}

func checkVolumeInUse(ctx context.Context, env Env) error {
	volume, err := env.volume(ctx)
	if err != nil {
		return err
	}
	box, err := env.create(ctx, func(s *core.BoxSpec) {
		s.Mounts = []core.Mount{{Volume: volume.Name, Path: core.GuestCache, Writable: true}}
	})
	if err != nil {
		return err
	}
	if err := wantKind("removing it", env.Backend.RemoveVolume(ctx, volume.Name), core.ErrUnavailable); err != nil {
		return err
	}
	if err := env.Backend.Destroy(ctx, box.ID); err != nil {
		return err
	}
	return env.Backend.RemoveVolume(ctx, volume.Name)
}

func checkVolumeForeign(ctx context.Context, env Env) error {
	if env.Hooks.ForeignVolume == nil {
		return skipError{"ForeignVolume"}
	}
	foreign, err := env.Hooks.ForeignVolume(ctx)
	if err != nil {
		return err
	}
	if err := wantKind("removing it", env.Backend.RemoveVolume(ctx, foreign.ID), core.ErrNotFound); err != nil {
		return err
	}
	_, err = env.Backend.EnsureVolume(ctx, core.Volume{Name: foreign.ID, Labels: env.labels(core.PurposeCache)})
	if err := wantKind("taking it over", err, core.ErrNotFound); err != nil {
		return err
	}
	_, err = env.create(ctx, func(s *core.BoxSpec) {
		s.Mounts = []core.Mount{{Volume: foreign.ID, Path: core.GuestCache}}
	})
	if err := wantKind("mounting it", err, core.ErrNotFound); err != nil {
		return err
	}
	return stays(ctx, foreign)
}

func commonChecks() []Check {
	return []Check{
		{"common/together", "All methods may be called at the same time", checkTogether},
		{"common/ctx", "A method whose ctx ends returns soon, with core.ErrCancelled", checkCtx},
		{"common/unavailable", "An engine that cannot be reached is core.ErrUnavailable with a hint, and is tried anew at the next call", checkUnavailable},
	}
}

func checkTogether(ctx context.Context, env Env) error {
	const many = 3
	boxes, volumes := make([]core.Box, many), make([]core.Volume, many)
	for _, phase := range []func(i int) error{
		func(i int) (err error) { volumes[i], err = env.volume(ctx); return err },
		func(i int) (err error) { boxes[i], err = env.create(ctx, nil); return err },
		func(i int) error {
			_, there, err := env.find(ctx, boxes[i].ID)
			if err != nil || !there {
				return errors.Join(errors.New("a box that was made is not listed"), err)
			}
			return env.answers(ctx, boxes[i].ID)
		},
		func(i int) error { return env.Backend.Destroy(ctx, boxes[i].ID) },
		func(i int) error { return env.Backend.RemoveVolume(ctx, volumes[i].Name) },
	} {
		if err := together(many, phase); err != nil {
			return err
		}
	}
	return nil
}

func checkCtx(ctx context.Context, env Env) error {
	box, err := env.create(ctx, nil)
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, call := range env.calls(box.ID) {
		if err := wantKind(name, call(ended), core.ErrCancelled); err != nil {
			return err
		}
	}
	return nil
}

// calls is one plain use of each method.
func (env Env) calls(box string) map[string]func(ctx context.Context) error {
	b := env.Backend
	return map[string]func(ctx context.Context) error{
		"Info":        func(ctx context.Context) error { _, err := b.Info(ctx); return err },
		"EnsureImage": func(ctx context.Context) error { _, err := b.EnsureImage(ctx, env.Image, "", nil); return err },
		"Create":      func(ctx context.Context) error { _, err := b.Create(ctx, env.spec()); return err },
		"Dial":        func(ctx context.Context) error { _, err := b.Dial(ctx, box); return err },
		"List":        func(ctx context.Context) error { _, err := b.List(ctx, env.Instance); return err },
		"Destroy":     func(ctx context.Context) error { return b.Destroy(ctx, box) },
		"EnsureVolume": func(ctx context.Context) error {
			_, err := b.EnsureVolume(ctx, core.Volume{Name: env.volumeName(), Labels: env.labels(core.PurposeCache)})
			return err
		},
		"RemoveVolume": func(ctx context.Context) error { return b.RemoveVolume(ctx, env.volumeName()) },
	}
}

func checkUnavailable(ctx context.Context, env Env) error {
	if env.Hooks.Down == nil {
		return skipError{"Down"}
	}
	down, up, err := env.Hooks.Down(ctx)
	if err != nil {
		return err
	}
	env.Backend = down
	for name, call := range env.calls(unknownIDs()[0]) {
		err := call(ctx)
		if err := wantKind(name, err, core.ErrUnavailable); err != nil {
			return err
		}
		if core.HintOf(err) == "" {
			return fmt.Errorf("%s: the error has no hint: %w", name, err)
		}
	}
	if err := up(); err != nil {
		return err
	}
	if _, err := env.Backend.Info(ctx); err != nil {
		return fmt.Errorf("once it is there: %w", err)
	}
	return nil
}
