package app

import (
	"context"
	"fmt"
	"io"
	pathpkg "path"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// collectLimit bounds the time in which a run's files are taken out of its box, and hurriedLimit
// when nobody waits for them any more or the server is closing.
const (
	collectLimit = time.Minute
	hurriedLimit = time.Second
)

// collect keeps what the run left: its files, and the full text of an output that was cut or is
// not plain text, and what it showed in forms other than text. What cannot be kept is a warning in the record, never a failed run.
func (r *run) collect(ctx context.Context, guest execution.Guest, exit core.Exit) {
	collecting, cancel := context.WithTimeout(context.WithoutCancel(ctx), collectLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hurriedLimit, cancel) })()
	ctx = collecting
	c := &collector{run: r, guest: guest, taken: map[string]bool{}, room: r.settings.MaxFiles}
	c.imageRoom = r.settings.InlineImage + r.settings.InlineImage/4
	c.reserve(core.Stdout, exit.Stdout)
	c.reserve(core.Stderr, exit.Stderr)
	for _, file := range exit.Files {
		c.file(ctx, file)
	}
	for _, display := range exit.Displays {
		c.display(ctx, display)
	}
	c.output(ctx, core.Stdout, exit.Stdout)
	c.output(ctx, core.Stderr, exit.Stderr)
	for _, p := range c.pictures { // last: it may take so long that no time is left
		c.record.Files[p.at].Preview = c.preview(ctx, p.path)
	}
	c.sum()
}

// leastPreview is the size below which a picture shows nothing, and mostPreviews how many of a run
// are shown: models refuse an answer with too many.
const (
	leastPreview = 16 << 10
	mostPreviews = 20
)

type collector struct {
	*run
	guest execution.Guest
	taken map[string]bool
	room  int64 // bytes that may still be kept
	// imageRoom is what images may still take in the answer: clients drop answers that are too long.
	imageRoom int64
	pictures  []picture
	shown     int
	warnings  int
}

// picture is a kept image that is still to be shown.
type picture struct {
	at   int // in the record's files
	path string
}

// maxWarnings bounds the warnings about files: a program may leave a thousand faulty ones.
const maxWarnings = 20

func (c *collector) warn(format string, args ...any) {
	if c.warnings++; c.warnings <= maxWarnings {
		c.record.Warnings = append(c.record.Warnings, fmt.Sprintf(format, args...))
	}
}

// sum tells of the warnings that were left out.
func (c *collector) sum() {
	if more := c.warnings - maxWarnings; more > 0 {
		c.record.Warnings = append(c.record.Warnings, fmt.Sprintf("%d more warnings of this kind were left out", more))
	}
}

func (c *collector) file(ctx context.Context, file core.FileInfo) {
	limit := min(c.settings.MaxFile, c.room)
	if file.Size > limit {
		c.warn("file %q has %d bytes and was not kept: the limit is %s for a file and %s for all files of a run",
			file.Path, file.Size, core.FormatBytes(c.settings.MaxFile), core.FormatBytes(c.settings.MaxFiles))
		return
	}
	kept, err := c.keep(ctx, c.unique(file.Path), "", func(w io.Writer) (int64, error) {
		return c.guest.ReadFile(ctx, file.Path, w, limit)
	})
	if err != nil {
		c.warn("file %q could not be kept: %s", file.Path, core.MessageOf(err))
		return
	}
	if isShown(kept.MIMEType) {
		c.pictures = append(c.pictures, picture{len(c.record.Files), file.Path})
	}
	c.record.Files = append(c.record.Files, kept)
}

// isShown: clients show these kinds of images; any other is a file like any.
func isShown(mimeType string) bool {
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// preview renders an image in the box: a hostile image is decoded there or nowhere.
func (c *collector) preview(ctx context.Context, path string) *core.Preview {
	limit := min(c.settings.InlineImage, c.imageRoom)
	if c.shown++; limit < leastPreview || c.shown > mostPreviews {
		c.warn("image %q is not shown: the images before it took the room; read it by its link", path)
		return nil
	}
	preview, err := c.guest.Preview(ctx, path, limit)
	if err != nil {
		c.warn("image %q is not shown: %s", path, core.MessageOf(err))
		return nil
	}
	c.imageRoom -= int64(len(preview.Data))
	return &preview
}

// displayEndings are those of the files in which shown values are kept; text needs none.
func displayEndings() map[string]string {
	return map[string]string{
		"text/html": ".html", "text/markdown": ".md", "image/svg+xml": ".svg", "image/png": ".png",
		"image/jpeg": ".jpg", "application/json": ".json",
	}
}

// display keeps a shown value as a file. A picture that is small enough is shown in place too.
func (c *collector) display(ctx context.Context, d core.Display) {
	ending := displayEndings()[d.MIMEType]
	if ending == "" || int64(len(d.Data)) > min(c.settings.MaxFile, c.room) {
		return
	}
	kept, err := c.keep(ctx, c.unique("result"+ending), "", func(w io.Writer) (int64, error) {
		n, err := w.Write(d.Data)
		return int64(n), err
	})
	if err != nil {
		c.warn("a shown value could not be kept: %s", core.MessageOf(err))
		return
	}
	if size := int64(len(d.Data)); isShown(kept.MIMEType) && size <= min(c.settings.InlineImage, c.imageRoom) {
		c.imageRoom -= size
		kept.Preview = &core.Preview{MIMEType: kept.MIMEType, Data: d.Data}
	}
	c.record.Files = append(c.record.Files, kept)
}

// outputName is that of the file with all of a stream that is kept.
func outputName(stream core.Stream) string { return string(stream) + ".txt" }

// needsFile: the record does not have all of it as it was.
func needsFile(out core.Output) bool {
	return out.Cut() > 0 || !core.IsPlainText(out.Head) || !core.IsPlainText(out.Tail)
}

// reserve keeps the name of an output's file from the program's own: whoever reads the output must not get that.
func (c *collector) reserve(stream core.Stream, out core.Output) {
	c.taken[outputName(stream)] = needsFile(out)
}

func (c *collector) output(ctx context.Context, stream core.Stream, out core.Output) {
	if !needsFile(out) {
		return
	}
	limit := min(out.Spilled, c.room)
	kept, err := c.keep(ctx, outputName(stream), "text/plain; charset=utf-8", func(w io.Writer) (int64, error) {
		return c.guest.ReadOutput(ctx, c.spec.ID, stream, w, limit)
	})
	if err != nil {
		c.warn("the full %s could not be kept: %s", stream, core.MessageOf(err))
		return
	}
	if kept.Size < out.Total {
		c.warn("%s had %d bytes; file %q holds the first %d", stream, out.Total, kept.Name, kept.Size)
	}
	if out.Cut() == 0 {
		c.warn("%s is not all plain text; file %q has its bytes", stream, kept.Name)
	}
	c.record.Files = append(c.record.Files, kept)
}

// keep stores what copyTo writes, all or nothing.
func (c *collector) keep(ctx context.Context, name, mimeType string, copyTo func(io.Writer) (int64, error)) (core.Artifact, error) {
	into, err := c.ports.Artifacts.Create(ctx, c.under.id, name)
	if err != nil {
		return core.Artifact{}, err
	}
	defer into.Abort()
	n, err := copyTo(into)
	if err != nil {
		return core.Artifact{}, err
	}
	if err := c.hold(ctx, c.tenant, c.under.id, n); err != nil {
		return core.Artifact{}, err
	}
	kept, err := into.Commit(mimeType)
	if err != nil {
		_ = c.hold(ctx, c.tenant, c.under.id, -n) // what is given back is never refused
		return core.Artifact{}, err
	}
	c.room -= n
	return kept, nil
}

// unique makes a name that the store takes and that no other file of the run has.
func (c *collector) unique(path string) string {
	name := core.PrintablePath(path)
	ending := pathpkg.Ext(name)
	for n := 2; c.taken[name]; n++ {
		name = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(core.PrintablePath(path), ending), n, ending)
	}
	c.taken[name] = true
	return name
}
