package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/patience"
)

// imageGrace is how long an image stays that somebody has asked for: he is about to make a box of it.
const imageGrace = time.Hour

// storedImage is an unpacked image as the collection sees it.
type storedImage struct {
	hex    string
	used   time.Time // when somebody last asked for it
	layers []string
}

// limits of what is kept.
type keeping struct {
	age   time.Duration // of an image since it was used
	bytes int64         // of all images together, a layer of several counted once
}

// surplus chooses what goes: images that were not used for too long, and of the others those that were not used for
// the longest time, until the rest fits; and the layers that no image has then. sizes are the layers' bytes.
func surplus(images []storedImage, sizes map[string]int64, inUse map[string]bool, most keeping, now time.Time) (goes, layers []string) {
	images = slices.SortedFunc(slices.Values(images), func(a, b storedImage) int { return a.used.Compare(b.used) })
	users := usersOf(images)
	var total int64
	for layer := range users {
		total += sizes[layer]
	}
	for _, image := range images {
		idle := now.Sub(image.used)
		if inUse[image.hex] || idle < imageGrace || idle < most.age && total <= most.bytes {
			continue
		}
		goes = append(goes, image.hex)
		for _, layer := range image.layers {
			if users[layer]--; users[layer] == 0 {
				total -= sizes[layer]
			}
		}
	}
	for layer := range sizes {
		if users[layer] <= 0 {
			layers = append(layers, layer)
		}
	}
	return goes, layers
}

// usersOf counts the images that have a layer.
func usersOf(images []storedImage) map[string]int {
	users := map[string]int{}
	for _, image := range images {
		for _, layer := range image.layers {
			users[layer]++
		}
	}
	return users
}

// collectLater removes surplus images in the background. What cannot be removed now is tried again after the next fetch.
func (b *Backend) collectLater() {
	b.work.Go(func() {
		ctx, cancel := patience.Slow(context.Background())
		defer cancel()
		_ = b.collect(ctx)
	})
}

// collect removes surplus images, unless somebody is fetching one, whose layers may be among those that are here: that
// one's end collects. Nobody waits for the locks while files are removed.
func (b *Backend) collect(ctx context.Context) error {
	unlock, err := lock(ctx, b.folders.cache)
	if err != nil {
		return err
	}
	scratch, _ := filepath.Glob(filepath.Join(b.folders.scratch(), temporary+"*")) // the pattern is well-formed
	left := holdLeft(b.folders.scratch(), temporary)
	if len(left) == len(scratch) {
		var taken []held
		taken, err = b.takeSurplus(ctx)
		left = append(left, taken...)
	}
	unlock()
	removeLeft(left)
	return err
}

// takeSurplus moves what goes out of its place. No box can be made of an image meanwhile; see reserve. The caller has
// the cache's lock.
func (b *Backend) takeSurplus(ctx context.Context) ([]held, error) {
	unlock, err := lock(ctx, b.folders.volumes())
	if err != nil {
		return nil, err
	}
	defer unlock()
	used, err := b.imagesInUse()
	if err != nil {
		return nil, err
	}
	stored, err := b.storedImages()
	if err != nil {
		return nil, err
	}
	most := keeping{age: time.Duration(b.settings.ImageDays) * 24 * time.Hour, bytes: b.settings.MaxCacheBytes}
	images, layers := surplus(stored, b.storedLayers(), used, most, time.Now())
	var from []string
	for _, hex := range images {
		from = append(from, b.folders.image(hex))
	}
	for _, hex := range layers {
		from = append(from, b.folders.layer(hex))
	}
	var taken []held
	for _, dir := range from {
		mine, moveErr := moveAway(dir, filepath.Join(b.folders.scratch(), temporary+rand.Text()))
		if err = errors.Join(err, moveErr); moveErr == nil {
			taken = append(taken, mine)
		}
	}
	b.dropRefs()
	return taken, err
}

func (b *Backend) storedImages() ([]storedImage, error) {
	entries, err := os.ReadDir(b.folders.image(""))
	if err != nil {
		return nil, err // else all layers would be nobody's
	}
	var list []storedImage
	for _, entry := range entries {
		file := filepath.Join(b.folders.image(entry.Name()), imageFile)
		var rec imageRecord
		info, err := os.Stat(file)
		if err == nil && readJSON(file, &rec) == nil {
			list = append(list, storedImage{hex: entry.Name(), used: info.ModTime(), layers: rec.Layers})
		}
	}
	return list, nil
}

func (b *Backend) storedLayers() map[string]int64 {
	entries, _ := os.ReadDir(b.folders.layer("")) // none, none goes
	sizes := map[string]int64{}
	for _, entry := range entries {
		var rec layerRecord
		_ = readJSON(filepath.Join(b.folders.layer(entry.Name()), "layer.json"), &rec) // what has none is nobody's
		sizes[entry.Name()] = rec.Bytes
	}
	return sizes
}

// imagesInUse are those of boxes, whether they run or not. If that of one is not known, an error: it may be any.
func (b *Backend) imagesInUse() (map[string]bool, error) {
	entries, err := os.ReadDir(b.folders.boxes())
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, entry := range entries {
		if !isID(entry.Name()) {
			continue // on its way
		}
		var rec record
		err := readJSON(b.folders.record(entry.Name()), &rec)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the record of a box goes last
		case err != nil:
			return nil, err
		case rec.Digest == "":
			return nil, core.Errorf(core.ErrInternal, "of which image the box %s is, is not known", entry.Name())
		default:
			used[rec.Digest] = true
		}
	}
	return used, nil
}

// dropRefs forgets the names of images that are not here any more.
func (b *Backend) dropRefs() {
	files, _ := filepath.Glob(b.folders.ref("*")) // the pattern is well-formed
	for _, file := range files {
		var rec refRecord
		if readJSON(file, &rec) != nil {
			continue
		}
		if _, err := os.Stat(b.folders.image(strings.TrimPrefix(rec.Digest, "sha256:"))); gone(err) == nil && err != nil {
			_ = os.Remove(file) // the name is fetched again in any case
		}
	}
}
