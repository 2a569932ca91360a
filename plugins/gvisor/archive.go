package gvisor

import (
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/boxwright/boxwright/core"
)

// openArchive opens an image of a "docker save" file, or of an OCI layout's folder. In a file of
// several images it takes the one of that name.
func openArchive(ref, file string) (v1.Image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openLayout(file)
	}
	image, err := tarball.ImageFromPath(file, nil)
	if err == nil {
		return image, nil
	}
	tag, tagErr := name.NewTag(ref)
	if tagErr != nil {
		return nil, err
	}
	image, err = tarball.ImageFromPath(file, &tag)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "%s is not an archive of it: %w", file, err).
			WithHint("make one with \"docker save %s -o FILE\"", ref)
	}
	return image, nil
}

// openLayout takes the first image for this machine's platform.
func openLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "%s is not an OCI layout: %w", dir, err)
	}
	image, err := imageIn(index, 0)
	if err == nil && image == nil {
		err = core.Errorf(core.ErrUnsupported, "%s has no image for %s", dir, platform().String())
	}
	return image, err
}

// maxIndexes bounds how deep indexes lie in indexes.
const maxIndexes = 4

func imageIn(index v1.ImageIndex, depth int) (v1.Image, error) {
	list, err := index.IndexManifest()
	if err != nil || depth > maxIndexes {
		return nil, err
	}
	for _, m := range list.Manifests {
		switch {
		case m.MediaType.IsIndex():
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return nil, err
			}
			if image, err := imageIn(inner, depth+1); image != nil || err != nil {
				return image, err
			}
		case m.MediaType.IsImage() && (m.Platform == nil || m.Platform.Satisfies(platform())):
			return index.Image(m.Digest)
		}
	}
	return nil, nil
}
