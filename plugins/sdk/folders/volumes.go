package folders

import (
	"time"

	"github.com/boxwright/boxwright/core"
)

// Volumes keeps volumes as folders. Its methods are those of execution.Backend, with its promises.
type Volumes struct {
	Store Store
	InUse func(name string) bool // whether some box mounts it
}

// dataFolder holds a volume's files, apart from its record.
const dataFolder = "data"

// Data is the folder of a volume's files, to be mounted into boxes.
func (v Volumes) Data(name string) string { return v.Store.Path(name, dataFolder) }

// Ensure returns the volume, and makes it if it is missing.
func (v Volumes) Ensure(want core.Volume) (core.Volume, error) {
	if err := core.CheckVolumeName(want.Name); err != nil {
		return core.Volume{}, err
	}
	want.Created = time.Now().UTC()
	if err := v.Store.Save(want.Name, want, dataFolder); err != nil && core.KindOf(err) != core.ErrInvalid {
		return core.Volume{}, err
	}
	var have core.Volume
	if !v.Store.Load(want.Name, &have) {
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s exists and is not Boxwright's", want.Name)
	}
	return have, nil
}

// Remove removes a volume that no box uses.
func (v Volumes) Remove(name string) error {
	if err := core.CheckVolumeName(name); err != nil {
		return err
	}
	switch {
	case !v.Store.Has(name):
		return nil
	case !v.Store.Load(name, &core.Volume{}):
		return core.Errorf(core.ErrNotFound, "there is no volume %s", name)
	case v.InUse != nil && v.InUse(name):
		return core.Errorf(core.ErrUnavailable, "volume %s is in use by a box", name)
	}
	return v.Store.Remove(name)
}

// Of returns the instance's volumes.
func (v Volumes) Of(instance string) []core.Volume {
	var found []core.Volume
	for _, name := range v.Store.Names() {
		var have core.Volume
		if v.Store.Load(name, &have) && have.Labels.Instance == instance {
			found = append(found, have)
		}
	}
	return found
}

// Check returns core.ErrNotFound for the first mount of a volume that does not exist, and
// core.ErrInvalid for what is no name of one.
func (v Volumes) Check(mounts []core.Mount) error {
	for _, m := range mounts {
		if err := core.CheckVolumeName(m.Volume); err != nil {
			return err
		}
		if !v.Store.Load(m.Volume, &core.Volume{}) {
			return core.Errorf(core.ErrNotFound, "there is no volume %s", m.Volume)
		}
	}
	return nil
}
