package installer

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// Bounds of a folder of wheels, and of what of it is on its way at once: a box's workspace is small.
const (
	maxWheels   = 20_000
	maxMetadata = 4 << 20 // bytes
	pieceSize   = 8 << 20 // bytes
)

// wheel is a file of the operator's folder.
type wheel struct {
	file string // its name
	size int64
}

// listWheels returns the wheels of a folder by the names of their packages.
func listWheels(folder string) (map[string][]wheel, error) {
	entries, err := os.ReadDir(folder)
	if err == nil && len(entries) > maxWheels {
		err = fmt.Errorf("it has more than %d files", maxWheels)
	}
	if err != nil {
		return nil, badWheels(err)
	}
	wheels := map[string][]wheel{}
	form := regexp.MustCompile(`^([A-Za-z0-9._]+)-[A-Za-z0-9._+!-]+\.whl$`)
	for _, entry := range entries {
		m := form.FindStringSubmatch(entry.Name())
		if m == nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, entry.Name())); err == nil && info.Mode().IsRegular() {
			name := core.NormalizePackage(m[1])
			wheels[name] = append(wheels[name], wheel{file: entry.Name(), size: info.Size()})
		}
	}
	return wheels, nil
}

func badWheels(err error) error {
	return core.Errorf(core.ErrDependency, "the folder of wheels cannot be read: %w", err).
		WithHint("the operator sets it with dependencies.wheels")
}

// reachable returns all wheels that may be needed for packages of the names: whatever a resolver picks is among
// them, as versions and markers are not looked at.
func reachable(folder string, wheels map[string][]wheel, names []string) []wheel {
	var found []wheel
	seen := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, w := range wheels[name] {
			found = append(found, w)
			names = append(names, needs(filepath.Join(folder, w.file))...)
		}
	}
	return found
}

// needs returns the names of the packages that a wheel asks for. One that cannot be read asks for none: the
// installer says what is wrong with it.
func needs(file string) []string {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return nil
	}
	defer func() { _ = archive.Close() }()
	for _, f := range archive.File {
		if matched, _ := path.Match("*.dist-info/METADATA", f.Name); !matched {
			continue
		}
		text, err := readEntry(f)
		if err != nil {
			return nil
		}
		return requiredNames(text)
	}
	return nil
}

func readEntry(f *zip.File) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(r, maxMetadata))
	return string(text), err
}

// requiredNames reads the headers of a package's metadata.
func requiredNames(metadata string) []string {
	var names []string
	name := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)
	for line := range strings.Lines(metadata) {
		if line = strings.TrimSpace(line); line == "" {
			break // the description follows
		}
		if value, is := strings.CutPrefix(line, "Requires-Dist:"); is {
			names = append(names, core.NormalizePackage(name.FindString(strings.TrimSpace(value))))
		}
	}
	return names
}

// stageWheels puts all wheels into the box that packages of the names may need, and were not put there yet.
func (j *job) stageWheels(ctx context.Context, names []string) error {
	if j.options.Wheels == "" {
		return nil
	}
	wheels, err := listWheels(j.options.Wheels)
	if err != nil {
		return err
	}
	for _, w := range reachable(j.options.Wheels, wheels, names) {
		if j.staged[w.file] {
			continue
		}
		j.staged[w.file] = true
		if j.stagedBytes += w.size; j.stagedBytes > writes*j.options.MaxSize {
			return core.Errorf(core.ErrDependency, "the wheels that may be needed for %s are more than %s", shorten(strings.Join(names, ", "), 200), core.FormatBytes(writes*j.options.MaxSize)).
				WithHint("ask for fewer packages; the operator may raise dependencies.max_environment, or remove old wheels from the folder")
		}
		if err := j.stage(ctx, w); err != nil {
			return err
		}
	}
	return j.gather(ctx)
}

// stage writes a wheel in pieces.
func (j *job) stage(ctx context.Context, w wheel) error {
	f, err := os.Open(filepath.Join(j.options.Wheels, w.file))
	if err != nil {
		return badWheels(err)
	}
	defer func() { _ = f.Close() }()
	for rest := w.size; rest > 0; {
		piece := &io.LimitedReader{R: f, N: min(rest, pieceSize)}
		size := piece.N
		j.pieces++
		if err := j.guest.WriteFile(ctx, fmt.Sprintf("%s/%06d-%s", piecesDir, j.pieces, w.file), piece); err != nil {
			return err
		}
		if piece.N > 0 {
			return badWheels(errors.New("a file became shorter while it was read"))
		}
		rest -= size
		if j.pending += size; j.pending >= pieceSize {
			if err := j.gather(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// gather moves the pieces that are in the workspace to where there is room.
func (j *job) gather(ctx context.Context) error {
	if j.pending == 0 {
		return nil
	}
	j.pending = 0
	_, err := j.python(ctx, gatherProgram, core.GuestWork+"/"+piecesDir, j.wheelsDir())
	return err
}
