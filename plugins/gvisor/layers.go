package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/boxwright/boxwright/core"
)

// layerRecord lies beside an unpacked layer's root folder.
type layerRecord struct {
	Bytes int64 `json:"bytes"` // what the layer takes of an image's budget
}

// maxLayers bounds how many layers an image has. Other engines stop at 127.
const maxLayers = 500

// unpackLayers unpacks the layers that are not here yet into folder temp, and returns the folders
// of all, lowest first. Those that are here are a part of the image's size like all others.
func (b *Backend) unpackLayers(ctx context.Context, image v1.Image, ids []v1.Hash, temp string, tell tell) ([]string, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(ids) || len(layers) > maxLayers {
		return nil, core.Errorf(core.ErrInvalid, "it has %d layers, and names %d; at most %d can be used", len(layers), len(ids), maxLayers)
	}
	left := &budget{disk: b.settings.MaxImageBytes, stream: b.settings.MaxImageBytes}
	var dirs []string
	for i, layer := range layers {
		progress := func(mib int64) { tell(fmt.Sprintf(": %d MiB", mib), i, len(layers)) }
		dir, err := b.unpackLayer(ctx, layer, ids[i], temp, left, progress)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// unpackLayer returns the folder of one layer, which it unpacks unless it is here.
func (b *Backend) unpackLayer(ctx context.Context, layer v1.Layer, id v1.Hash, temp string, left *budget, progress func(mib int64)) (string, error) {
	made := madeLayer(temp, id.Hex)
	for _, dir := range []string{b.folders.layer(id.Hex), made} {
		var have layerRecord
		if readJSON(filepath.Join(dir, "layer.json"), &have) == nil {
			return dir, left.take(have.Bytes)
		}
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }() // it was only read
	root := layerRoot(made)
	if err := os.MkdirAll(root, private); err != nil {
		return "", err
	}
	before := left.disk
	bounded := &boundedReader{ctx: ctx, from: content, left: left, progress: progress}
	u := unpacker{ctx: ctx, left: left, own: b.machine.uid == 0}
	if err := u.verified(bounded, id, root); err != nil {
		return "", err
	}
	return made, writeJSON(filepath.Join(made, "layer.json"), layerRecord{Bytes: before - left.disk})
}

func layerRoot(layer string) string { return filepath.Join(layer, "root") }

// budget is what an image may still have, in bytes.
type budget struct {
	disk   int64 // of its layers, unpacked
	stream int64 // to be read; only what is skipped in it, or follows its end, makes it longer than what is unpacked
}

// entryBytes is what a file, a folder or a link takes on a disk, besides its content.
const entryBytes = 4096

// take takes n bytes of the disk.
func (b *budget) take(n int64) error {
	if n < 0 || n > b.disk {
		return tooBig()
	}
	b.disk -= n
	return nil
}

func tooBig() error {
	return core.Errorf(core.ErrExhausted, "the image is bigger than max_image_bytes allows").
		WithHint("raise backends.gvisor.settings.max_image_bytes")
}

// boundedReader reads a layer's stream as long as somebody waits for it and the budget lasts.
type boundedReader struct {
	ctx      context.Context
	from     io.Reader
	left     *budget
	progress func(mib int64)
	read     int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, core.ContextError(r.ctx)
	}
	n, err := r.from.Read(p)
	r.read += int64(n)
	r.progress(r.read >> 20)
	if r.left.stream -= int64(n); r.left.stream < 0 {
		return 0, tooBig()
	}
	return n, err
}

// verified unpacks a layer into dir; its whole stream must be what its name says.
func (u *unpacker) verified(content io.Reader, id v1.Hash, dir string) error {
	hash := sha256.New()
	stream := io.TeeReader(content, hash)
	if err := u.unpack(stream, dir); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // what follows the archive's end
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != id.Hex {
		return core.Errorf(core.ErrInvalid, "a layer is not what its name %s says", id)
	}
	return nil
}
