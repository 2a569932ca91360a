package folders

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Open returns the boxes and volumes that are kept below dir, which is made when it is needed. A
// volume that a box mounts is in use.
func Open(dir string) (Boxes, Volumes) {
	volumes := Store{filepath.Join(dir, "volumes")}
	boxes := Boxes{Store: Store{filepath.Join(dir, "boxes")}, Volumes: volumes}
	return boxes, Volumes{Store: volumes, InUse: boxes.Mount}
}

// Box is what is kept of a box: enough to understand it after a crash.
type Box struct {
	ID      string
	Spec    core.BoxSpec
	Created time.Time
}

// Describe is the box as Create returns it, with warnings, and as List shows it, without.
func (b Box) Describe(running bool, warnings ...string) core.Box {
	state := core.BoxStopped
	if running {
		state = core.BoxRunning
	}
	return core.Box{ID: b.ID, Image: b.Spec.Image, Labels: b.Spec.Labels, State: state, Created: b.Created, Warnings: warnings}
}

// Boxes keeps boxes. Whether their processes run is the backend's to know.
type Boxes struct {
	Store   Store
	Volumes Store // that they mount
}

// Make writes a new box down, with an id that nobody guesses. It is listed from then on, so a backend
// calls it before it starts anything. No volume that the box mounts can be removed from then on; one
// that does not exist is core.ErrNotFound.
func (b Boxes) Make(spec core.BoxSpec) (Box, error) {
	unlock, err := b.Volumes.lock()
	if err != nil {
		return Box{}, err
	}
	defer unlock()
	if err := checkMounts(spec.Mounts, b.Volumes); err != nil {
		return Box{}, err
	}
	box := Box{ID: strings.ToLower(rand.Text()), Spec: spec, Created: time.Now().UTC()}
	return box, b.Store.Save(box.ID, box)
}

// Find returns the box, or core.ErrNotFound. The id may be anything.
func (b Boxes) Find(id string) (Box, error) {
	var box Box
	isID := len(id) == 26 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
	if !isID || !b.Store.Load(id, &box) {
		return Box{}, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	return box, nil
}

// Of returns the instance's boxes.
func (b Boxes) Of(instance string) []Box {
	return slices.DeleteFunc(b.all(), func(box Box) bool { return box.Spec.Labels.Instance != instance })
}

// Mount reports whether some box, of any instance, mounts the volume.
func (b Boxes) Mount(volume string) bool {
	return slices.ContainsFunc(b.all(), func(box Box) bool {
		return slices.ContainsFunc(box.Spec.Mounts, func(m core.Mount) bool { return m.Volume == volume })
	})
}

func (b Boxes) all() []Box {
	var all []Box
	for _, id := range b.Store.Names() {
		if box, err := b.Find(id); err == nil {
			all = append(all, box)
		}
	}
	return all
}
