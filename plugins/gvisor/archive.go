package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

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
	open := func() (io.ReadCloser, error) { return openRegular(file) }
	image, err := tarball.Image(open, nil)
	if err == nil {
		return image, nil
	}
	tag, tagErr := name.NewTag(ref)
	if tagErr != nil {
		return nil, err
	}
	return tarball.Image(open, &tag)
}

// openRegular opens a file that can be read to an end: to open what else there is may wait without one.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// archiveError says what is wrong with an image's archive.
func archiveError(ctx context.Context, ref, file string, err error) error {
	var ours *core.Error
	switch {
	case errors.As(err, &ours):
		return core.Errorf(ours.Kind, "image %s: %w", ref, err)
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case kindOf(err) != core.ErrInternal:
		return core.Errorf(kindOf(err), "image %s could not be taken from %s: %w", ref, file, err)
	}
	return core.Errorf(core.ErrInvalid, "%s is not an archive of image %s, or is damaged: %w", file, ref, err).
		WithHint("make it with \"docker save %s -o FILE\", or correct backends.gvisor.settings.images", ref)
}

// openLayout takes the first image for this machine's platform.
func openLayout(dir string) (v1.Image, error) {
	if err := allRegular(dir); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("not an OCI layout: %w", err)
	}
	image, err := imageIn(index, 0)
	if err == nil && image == nil {
		err = core.Errorf(core.ErrUnsupported, "%s has no image for %s", dir, platform().String())
	}
	return image, err
}

// allRegular refuses a layout with a file that would not come to an end.
func allRegular(dir string) error {
	files, _ := fs.Glob(os.DirFS(dir), "blobs/*/*") // the pattern is well-formed
	for _, name := range append(files, "index.json") {
		file, err := openRegular(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
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
