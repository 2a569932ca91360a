package gvisor

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// TestHostileLayers: nothing that a layer says writes outside its folder, or makes what is not a
// file, a folder or a link.
func TestHostileLayers(t *testing.T) {
	outside := t.TempDir()
	for what, entries := range map[string][]entry{
		"dots":                     {{name: "../out", content: "x"}},
		"dots inside":              {{name: "a/../../out", content: "x"}},
		"an absolute name":         {{name: outside + "/out", content: "x"}},
		"a link, then through it":  {{name: "l", kind: tar.TypeSymlink, link: outside}, {name: "l/out", content: "x"}},
		"a relative link":          {{name: "l", kind: tar.TypeSymlink, link: "../../../../../../.." + outside}, {name: "l/out", content: "x"}},
		"a link to a link":         {{name: "l", kind: tar.TypeSymlink, link: outside}, {name: "m", kind: tar.TypeSymlink, link: "l"}, {name: "m/out", content: "x"}},
		"a folder over a link":     {{name: "l", kind: tar.TypeSymlink, link: outside}, {name: "l/", mode: 0o755}, {name: "l/out", content: "x"}},
		"a file over a link":       {{name: "l", kind: tar.TypeSymlink, link: outside + "/out"}, {name: "l", content: "x"}},
		"a hard link out":          {{name: "h", kind: tar.TypeLink, link: "../../../../../../../../etc/passwd"}},
		"an absolute hard link":    {{name: "h", kind: tar.TypeLink, link: "/etc/passwd"}},
		"a hard link by a link":    {{name: "l", kind: tar.TypeSymlink, link: "/etc"}, {name: "h", kind: tar.TypeLink, link: "l/passwd"}},
		"a hard link to a link":    {{name: "l", kind: tar.TypeSymlink, link: outside + "/out"}, {name: "h", kind: tar.TypeLink, link: "l"}, {name: "h", content: "x"}},
		"a device":                 {{name: "d", kind: tar.TypeBlock}, {name: "c", kind: tar.TypeChar}},
		"a pipe":                   {{name: "p", kind: tar.TypeFifo}},
		"a set-user-ID program":    {{name: "s", content: "x", mode: 0o6755}},
		"an empty name":            {{name: "", content: "x"}},
		"a file for a folder":      {{name: "f", content: "x"}, {name: "f/g", content: "y"}},
		"a whiteout of what is up": {{name: ".wh...", content: ""}, {name: ".wh..", content: ""}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			archive := archiveOf(t, entries...)
			u := unpacker{ctx: t.Context(), left: room(1 << 20), own: os.Getuid() == 0}
			err := u.unpack(bytes.NewReader(archive), dir)
			if err != nil && core.KindOf(err) != core.ErrInvalid {
				t.Errorf("an error of the kind %s: %v", core.KindOf(err), err)
			}
			onlyPlain(t, dir)
			if left, _ := os.ReadDir(outside); len(left) > 0 {
				t.Fatalf("it wrote %v outside", left)
			}
		})
	}
}

// onlyPlain reports what is neither a file, a folder nor a link, or gives rights.
func onlyPlain(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Error(err)
			return nil
		}
		info, err := d.Info()
		if err != nil || !d.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s is %v (%v)", path, info.Mode(), err)
		}
		if passwd, err := os.Stat("/etc/passwd"); err == nil && os.SameFile(info, passwd) {
			t.Errorf("%s is the machine's own file", path)
		}
		return nil
	})
}

func TestLayerThatIsTooBig(t *testing.T) {
	for what, entries := range map[string][]entry{
		"one file":   {{name: "a", content: strings.Repeat("x", 100)}},
		"many files": {{name: "a", content: strings.Repeat("x", 40)}, {name: "b", content: strings.Repeat("x", 40)}},
	} {
		u := unpacker{ctx: t.Context(), left: room(64 + int64(len(entries))*entryBytes)}
		err := u.unpack(bytes.NewReader(archiveOf(t, entries...)), t.TempDir())
		if core.KindOf(err) != core.ErrExhausted || core.HintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// room is a budget of n bytes of a disk, and of enough to read.
func room(n int64) *budget { return &budget{disk: n, stream: 1 << 30} }

// TestFilesKeepTheirTimes: Python compares a source's time with the one in its compiled file.
func TestFilesKeepTheirTimes(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	w.WriteHeader(&tar.Header{Name: "module.py", Typeflag: tar.TypeReg, Mode: 0o644, Size: 1, ModTime: at})
	w.Write([]byte("x"))
	w.Close()
	dir := t.TempDir()
	u := unpacker{ctx: t.Context(), left: room(1 << 20)}
	if err := u.unpack(&archive, dir); err != nil {
		t.Fatal(err)
	}
	if got := changed(t, filepath.Join(dir, "module.py")); !got.Equal(at) {
		t.Errorf("the file is of %s, want %s", got, at)
	}
}

// FuzzUnpack: whatever an archive is, it ends well, and makes only plain things.
func FuzzUnpack(f *testing.F) {
	f.Add(archiveOf(f, entry{name: "a/", mode: 0o755}, entry{name: "a/b", content: "x"}, entry{name: "l", kind: tar.TypeSymlink, link: "/etc"}))
	f.Add(archiveOf(f, entry{name: "l", kind: tar.TypeSymlink, link: ".."}, entry{name: "l/x", content: "x"}, entry{name: "h", kind: tar.TypeLink, link: "l/../../x"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "inner")
		os.Mkdir(dir, 0o755)
		u := unpacker{ctx: t.Context(), left: room(1 << 20), own: false}
		_ = u.unpack(bytes.NewReader(archive), dir)
		onlyPlain(t, dir)
		if all, _ := os.ReadDir(parent); len(all) != 1 {
			t.Errorf("it wrote beside its folder: %v", all)
		}
	})
}

func changed(t *testing.T, file string) time.Time {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// storeBackend is a backend that only stores images.
func storeBackend(t *testing.T) *Backend {
	t.Helper()
	settings, err := Settings{Dir: t.TempDir()}.complete()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBackend("test", sdk.Config{}, settings, thisMachine())
	if err == nil {
		err = b.folders.make()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestLayersTogether puts layers together that change each other's files in every way.
func TestLayersTogether(t *testing.T) {
	b := storeBackend(t)
	lower := layerOf(t,
		entry{name: "etc/", mode: 0o755}, entry{name: "etc/a", content: "lower a"}, entry{name: "etc/b", content: "lower b"},
		entry{name: "gone/", mode: 0o755}, entry{name: "gone/x", content: "x"},
		entry{name: "hidden/", mode: 0o755}, entry{name: "hidden/old", content: "old"},
		entry{name: "lib", kind: tar.TypeSymlink, link: "usr/lib"},
		entry{name: "usr/lib/", mode: 0o755}, entry{name: "usr/lib/so", content: "so"}, entry{name: "usr/lib/same", kind: tar.TypeLink, link: "usr/lib/so"},
		entry{name: "file", content: "file"}, entry{name: "work", kind: tar.TypeSymlink, link: "/etc"},
	)
	upper := layerOf(t,
		entry{name: "etc/", mode: 0o700}, entry{name: "etc/a", content: "upper a"}, entry{name: "etc/.wh.b"},
		entry{name: ".wh.gone"},
		entry{name: "hidden/", mode: 0o755}, entry{name: "hidden/.wh..wh..opq"}, entry{name: "hidden/new", content: "new"},
		entry{name: "file/", mode: 0o755}, entry{name: "file/now", content: "a folder"},
	)
	rec, err := b.store(t.Context(), imageOf(t, lower, upper), func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	from, err := b.readImage("x", rec.Digest)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"etc/a": "upper a", "hidden/new": "new", "usr/lib/so": "so", "usr/lib/same": "so", "lib/so": "so", "file/now": "a folder",
	} {
		if got, err := os.ReadFile(filepath.Join(from.root, path)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"etc/b", "gone", "hidden/old", "etc/.wh.b", "hidden/.wh..wh..opq"} {
		if _, err := os.Lstat(filepath.Join(from.root, path)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(from.root, "work")); err != nil || !info.IsDir() {
		t.Errorf("the workspace's place is %v, %v", info, err)
	}
	layers, _ := os.ReadDir(b.folders.layer(""))
	if len(layers) != 2 {
		t.Errorf("there are %d layers", len(layers))
	}
	if again, err := b.store(t.Context(), imageOf(t, lower, upper), func(string, int, int) {}); err != nil || again != rec {
		t.Errorf("the second time: %+v, %v", again, err)
	}
}

// TestLayersAreStoredOnce: two images that share a layer share its files.
func TestLayersAreStoredOnce(t *testing.T) {
	b := storeBackend(t)
	base := layerOf(t, entry{name: "etc/", mode: 0o755}, entry{name: "big", content: strings.Repeat("x", 1000)})
	var files []fs.FileInfo
	for _, name := range []string{"one", "two"} {
		rec, err := b.store(t.Context(), imageOf(t, base, layerOf(t, entry{name: name, content: name})), func(string, int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		from, err := b.readImage(name, rec.Digest)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(from.root, "big"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
	}
	if !os.SameFile(files[0], files[1]) {
		t.Error("the shared layer's file is there twice")
	}
}

// TestAnArchiveThatChanges is read again, and its name then means the new content.
func TestAnArchiveThatChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	b := storeBackend(t)
	b.settings.Images = map[string]string{"some/image:1": file}
	var digests []string
	for _, content := range []string{"one", "another"} {
		saveImage(t, file, "some/image:1", layerOf(t, entry{name: "a", content: content}))
		b.finder.now = &runsc{path: file, changed: changed(t, file)}
		got, err := b.EnsureImage(t.Context(), "some/image:1", core.PullMissing, nil)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, got.Digest)
	}
	if digests[0] == digests[1] {
		t.Error("the name still means the old content")
	}
	if _, err := b.readImage("", digests[0]); err != nil {
		t.Errorf("the old content is gone from under its boxes: %v", err)
	}
}

// TestALayerThatIsNotWhatItSays: what a registry sends in its place is not kept.
func TestALayerThatIsNotWhatItSays(t *testing.T) {
	b := storeBackend(t)
	layer := layerOf(t, entry{name: "a", content: "a"})
	other, err := layerOf(t, entry{name: "b", content: "b"}).DiffID()
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, layer)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.RootFS.DiffIDs[0] = other
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	_, err = b.store(t.Context(), image, func(string, int, int) {})
	if core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{b.folders.layer(""), b.folders.scratch()} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestHostRoot(t *testing.T) {
	system := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/lib", "usr/local/bin", "usr/src", "etc/alternatives", "home/somebody", "lib64"} {
		os.MkdirAll(filepath.Join(system, dir), 0o755)
	}
	os.Symlink("usr/bin", filepath.Join(system, "bin"))
	os.Symlink("/usr/bin/mawk", filepath.Join(system, "etc/alternatives/awk"))
	os.Symlink("/home/somebody/x", filepath.Join(system, "etc/alternatives/bad"))
	os.WriteFile(filepath.Join(system, "etc/shadow"), []byte("secret"), 0o600)
	os.WriteFile(filepath.Join(system, "etc/passwd"), []byte("somebody:x:1:1::/home/somebody:/bin/sh"), 0o644)
	python := filepath.Join(system, "usr/bin/python3")
	os.WriteFile(python, []byte("#!/bin/sh\necho 3 12 1 a version\n"), 0o755)

	b := storeBackend(t)
	b.machine.system = system
	image, err := b.hostImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, err := b.readImage(core.ImageHost, image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(system, "usr"), filepath.Join(system, "lib64")}; !slices.Equal(from.binds, want) {
		t.Errorf("it shows %q", from.binds)
	}
	if want := []string{"/usr/src", "/usr/local"}; !slices.Equal(from.masks, want) {
		t.Errorf("it hides %q", from.masks)
	}
	if target, err := os.Readlink(filepath.Join(from.root, "bin")); err != nil || target != "usr/bin" {
		t.Errorf("/bin leads to %q, %v", target, err)
	}
	var seen []string
	for _, dir := range []string{"", "etc/alternatives", "home"} {
		entries, _ := os.ReadDir(filepath.Join(from.root, dir))
		for _, e := range entries {
			seen = append(seen, e.Name())
		}
	}
	for _, name := range []string{"shadow", "bad", "somebody", "root", "var", "run"} {
		if slices.Contains(seen, name) {
			t.Errorf("%s is there", name)
		}
	}
	passwd, _ := os.ReadFile(filepath.Join(from.root, "etc/passwd"))
	if strings.Contains(string(passwd), "somebody") || !slices.Contains(seen, "awk") {
		t.Errorf("seen %q, passwd %s", seen, passwd)
	}
	hostDigestChanges(t, b, image.Digest, python)
}

// hostDigestChanges: a new interpreter is new content; without one there is no image.
func hostDigestChanges(t *testing.T, b *Backend, digest, python string) {
	t.Helper()
	os.WriteFile(python, []byte("#!/bin/sh\necho 3 13 0 a newer version\n"), 0o755)
	if now, err := b.hostImage(t.Context()); err != nil || now.Digest == digest {
		t.Errorf("with another interpreter: %+v, %v", now, err)
	}
	os.WriteFile(python, []byte("#!/bin/sh\necho 3 7 0 long ago\n"), 0o755)
	if _, err := b.hostImage(t.Context()); core.KindOf(err) != core.ErrNotFound || core.HintOf(err) == "" {
		t.Errorf("with an old one: %v", err)
	}
	os.Remove(python)
	if _, err := b.hostImage(t.Context()); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("without one: %v", err)
	}
}

// TestHostileImageConfig: an image's variables are only variables.
func TestHostileImageConfig(t *testing.T) {
	got := cleanEnv([]string{"A=1", "=x", "B", "C\x00=2", "D="})
	if want := []string{"A=1", "D="}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
