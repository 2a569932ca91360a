package gvisor

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

const testImage = "boxwright-test/empty:1"

// require skips a test for want of something, unless BOXWRIGHT_REQUIRE forbids that.
func require(t *testing.T, what string, err error) {
	t.Helper()
	for part := range strings.SplitSeq(os.Getenv("BOXWRIGHT_REQUIRE"), ",") {
		if part == what {
			t.Fatal(err)
		}
	}
	t.Skip(err)
}

// findRunsc is what BOXWRIGHT_RUNSC says, or what PATH has.
func findRunsc(t *testing.T, what string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs runsc")
	}
	f := newFinder(Settings{Runsc: os.Getenv("BOXWRIGHT_RUNSC")}, "", os.Getenv("PATH"))
	found, err := f.runsc(t.Context())
	if err != nil {
		require(t, what, err)
	}
	return found.path
}

// lab has runsc, a folder of its own, and an image without programs.
type lab struct {
	dir      string
	runsc    string
	agent    string // the stand-in's path
	settings Settings
}

func newLab(t *testing.T, what string) *lab {
	t.Helper()
	l := &lab{runsc: findRunsc(t, what), dir: shortDir(t)}
	l.agent = daemontest.BuildStandin(t)
	archive := filepath.Join(l.dir, "empty.tar")
	saveImage(t, archive, testImage, layerOf(t, entry{name: "etc/", mode: 0o755}, entry{name: "tmp/", mode: 0o777}))
	settings, err := Settings{Runsc: l.runsc, Dir: filepath.Join(l.dir, "state"), Images: map[string]string{testImage: archive}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	l.settings = settings
	return l
}

// shortDir is a folder that everybody may pass through.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw") //nolint:usetesting // a test's own folder is closed to other users, and long
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (l *lab) backend(t *testing.T, m machine) *Backend {
	t.Helper()
	b, err := newBackend("test", daemontest.Config(l.agent), l.settings, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// env is an environment for the suite.
func (l *lab) env(t *testing.T) executiontest.Env {
	faults := &faults{}
	b := l.backend(t, thisMachine())
	b.before = faults.step
	env := l.remoteEnv(t, b)
	env.Hooks.Fail = faults.fail
	env.Hooks.ForeignBox = func(context.Context) (executiontest.Foreign, error) { return l.foreignBox() }
	env.Hooks.ForeignVolume = func(context.Context) (executiontest.Foreign, error) { return l.foreignVolume() }
	env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) {
		weak := thisMachine()
		weak.cgroups = cgroups{}
		return l.backend(t, weak), core.LimitCPU, nil
	}
	env.Hooks.Down = func(context.Context) (execution.Backend, func() error, error) { return l.down(t) }
	return env
}

// remoteEnv has the hooks that only need the engine, for a backend in another process too.
func (l *lab) remoteEnv(t *testing.T, b execution.Backend) executiontest.Env {
	env := executiontest.RemoteFakeEnv(b) // the stand-in speaks as the fake does
	env.Image = testImage
	registry := daemontest.NewRegistry(t)
	env.Hooks.MissingImage = registry.Host + "/missing:1"
	env.Hooks.Registry = func(context.Context) (executiontest.Fetchable, error) {
		r := daemontest.NewRegistry(t)
		ref := r.Host + "/some/image:1"
		r.Push(t, ref, runtime.GOARCH)
		return executiontest.Fetchable{Ref: ref, Fetches: func() int { return int(r.Manifests.Load()) }}, nil
	}
	stop := env.Hooks.Stop
	env.Hooks.Stop = func(ctx context.Context, box string) error {
		if err := stop(ctx, box); err != nil {
			return err
		}
		for running(processesIn(box))[box] {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			runtime.Gosched()
		}
		return nil
	}
	return env
}

// processesIn are a box's, whoever made it.
func processesIn(box string) []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []process
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, ok := look(pid); ok && p.box == box {
			found = append(found, p)
		}
	}
	return found
}

// foreignBox is a container of somebody else's in the same place: runsc's own file about it.
func (l *lab) foreignBox() (executiontest.Foreign, error) {
	file := filepath.Join(l.settings.Dir, "runsc", "foreign_sandbox:foreign.state")
	return foreign("foreign", file, os.WriteFile(file, []byte("{}"), 0o600))
}

func (l *lab) foreignVolume() (executiontest.Foreign, error) {
	dir := filepath.Join(l.settings.Dir, "volumes", "foreign")
	file := filepath.Join(dir, "volume.json")
	return foreign("foreign", file, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(`{"labels":{}}`), 0o600)))
}

func foreign(id, file string, err error) (executiontest.Foreign, error) {
	return executiontest.Foreign{ID: id, Exists: func(context.Context) (bool, error) {
		_, err := os.Stat(file)
		return err == nil, nil
	}}, err
}

// down is a backend whose runsc is not there, until up.
func (l *lab) down(t *testing.T) (execution.Backend, func() error, error) {
	elsewhere := *l
	elsewhere.settings.Runsc = filepath.Join(l.dir, "later", "runsc")
	return elsewhere.backend(t, thisMachine()), func() error {
		return errors.Join(os.Mkdir(filepath.Dir(elsewhere.settings.Runsc), 0o755), os.Symlink(l.runsc, elsewhere.settings.Runsc))
	}, nil
}

// faults makes the nth step fail.
type faults struct {
	mu  sync.Mutex
	at  int
	hit bool
}

func (f *faults) fail(n int) func() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.hit = n, false
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.at = 0
		return f.hit
	}
}

func (f *faults) step(string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == 0 {
		return nil
	}
	f.at--
	f.hit = f.at == 0
	if f.hit {
		return errors.New("made to fail")
	}
	return nil
}

// entry is one of an archive.
type entry struct {
	name, link, content string
	kind                byte
	mode                int64
}

func archiveOf(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: e.mode, Size: int64(len(e.content)), Uid: os.Getuid(), Gid: os.Getgid()}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		io.WriteString(w, e.content)
	}
	w.Close()
	return buf.Bytes()
}

func layerOf(tb testing.TB, entries ...entry) v1.Layer {
	tb.Helper()
	raw := archiveOf(tb, entries...)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
	if err != nil {
		tb.Fatal(err)
	}
	return layer
}

func imageOf(tb testing.TB, layers ...v1.Layer) v1.Image {
	tb.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		tb.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		tb.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		tb.Fatal(err)
	}
	return image
}

// saveImage makes a "docker save" file.
func saveImage(tb testing.TB, file, ref string, layers ...v1.Layer) {
	tb.Helper()
	tag, err := name.NewTag(ref)
	if err == nil {
		err = tarball.WriteToFile(file, tag, imageOf(tb, layers...))
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// buildPlugin builds the executable into a folder that everybody may read.
func buildPlugin(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "boxwright-backend-gvisor")
	daemontest.Program(t, path, "../../cmd/boxwright-backend-gvisor")
	return path
}
