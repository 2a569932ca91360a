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
	unlock, err := v.Store.lock()
	if err != nil {
		return core.Volume{}, err
	}
	defer unlock()
	var have core.Volume
	switch {
	case v.Store.Load(want.Name, &have):
		return have, nil
	case v.Store.Has(want.Name):
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s exists and is not Boxwright's", want.Name)
	}
	want.Created = time.Now().UTC()
	return want, v.Store.save(want.Name, want, dataFolder)
}

// Remove removes a volume that no box uses.
func (v Volumes) Remove(name string) error {
	if err := core.CheckVolumeName(name); err != nil {
		return err
	}
	return v.Store.removeIf(name, func() error {
		switch {
		case v.Store.Has(name) && !v.Store.Load(name, &core.Volume{}):
			return core.Errorf(core.ErrNotFound, "there is no volume %s", name)
		case v.InUse != nil && v.InUse(name):
			return core.Errorf(core.ErrUnavailable, "volume %s is in use by a box", name)
		}
		return nil
	})
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

// checkMounts returns core.ErrNotFound for the first mount of a volume that does not exist, and
// core.ErrInvalid for what is no name of one.
func checkMounts(mounts []core.Mount, volumes Store) error {
	for _, m := range mounts {
		if err := core.CheckVolumeName(m.Volume); err != nil {
			return err
		}
		if !volumes.Load(m.Volume, &core.Volume{}) {
			return core.Errorf(core.ErrNotFound, "there is no volume %s", m.Volume)
		}
	}
	return nil
}
