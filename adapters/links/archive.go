package links

import (
	"archive/zip"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// archive sends all files of a run as they lie, one after the other, without holding any.
func (h *handler) archive(w http.ResponseWriter, r *http.Request) {
	run := r.PathValue("place")
	until, err := h.follow(r, target{kind: archivesPath, place: run})
	var files []core.Artifact
	if err == nil {
		files, err = h.Store.List(r.Context(), run)
	}
	if err == nil && len(files) == 0 {
		err = core.Errorf(core.ErrNotFound, "run %q has no files", run).
			WithHint("files are removed when they are old or when room is needed")
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.headers(w.Header(), run+".zip", "application/zip", until)
	if r.Method == http.MethodHead {
		return
	}
	to, end := patient(w)
	defer end()
	if err := h.pack(r.Context(), to, files); err != nil {
		h.Log.WarnContext(r.Context(), "an archive broke off", "run", run, "error", err)
		panic(http.ErrAbortHandler) // so that nobody takes a part for the whole
	}
}

func (h *handler) pack(ctx context.Context, w io.Writer, files []core.Artifact) error {
	archive := zip.NewWriter(w)
	for _, file := range files {
		if err := h.packOne(ctx, archive, file); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (h *handler) packOne(ctx context.Context, archive *zip.Writer, file core.Artifact) error {
	f, known, err := h.Store.Open(ctx, file.Run, file.Name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	// Some programs take a backslash for the end of a folder's name.
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: strings.ReplaceAll(known.Name, `\`, "_"), Modified: known.Created, Method: methodOf(known.MIMEType)})
	if err == nil {
		_, err = io.Copy(entry, f)
	}
	return err
}

// methodOf does not press what is pressed already.
func methodOf(mimeType string) uint16 {
	for _, kind := range []string{"image/png", "image/jpeg", "image/gif", "image/webp", "audio/", "video/", "application/zip", "application/gzip"} {
		if strings.HasPrefix(mimeType, kind) {
			return zip.Store
		}
	}
	return zip.Deflate
}
