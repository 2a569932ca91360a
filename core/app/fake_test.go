package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/execution"
)

// world is an engine, its guests, a file store and an index, all in memory, that can be told to
// fail at a named step.
type world struct {
	mu      sync.Mutex
	boxes   map[string]core.Box
	volumes map[string]core.Volume
	files   map[string][]byte // run/name
	index   map[string]core.Environment
	specs   []core.BoxSpec
	mounts  map[string][]core.Mount // by box
	folders map[string]bool         // of environments: zone/name
	last    int

	fail          map[string]error // by step
	run           func(ctx context.Context, spec core.RunSpec) (core.Exit, error)
	feed          func(ctx context.Context, run string, data []byte, end bool) (int64, error)
	contents      map[string]string // of the boxes' workspace
	install       func(ctx context.Context) error
	lose          error                           // what a creation returns although it made something
	creating      func()                          // called before a box is made
	ticking       func()                          // called before the clock is read
	carried       func(box string)                // called once a courier has done its errand
	reading       func(ctx context.Context) error // called before a file is read
	hang          string                          // the step that ends only with its ctx
	warns         []string                        // warnings of its boxes
	asked         func(ctx context.Context)       // called before it tells about itself
	image         string                          // its default image
	guests        int                             // that are not closed
	installs      atomic.Int64
	readyInstalls atomic.Int64 // of these, in a box that waited
	trims         atomic.Int64
	opened        atomic.Int64
	closed        atomic.Int64
	alive         map[string]bool
	now           time.Time
	sessions      *sessionStore
	runs          *runStore
	usage         *usageStore
	catalog       map[string]core.Package
	looking       func(ctx context.Context) error // what the catalog does instead; nil: it looks
}

func newWorld() *world {
	return &world{
		boxes: map[string]core.Box{}, volumes: map[string]core.Volume{}, files: map[string][]byte{},
		mounts: map[string][]core.Mount{}, folders: map[string]bool{},
		index: map[string]core.Environment{}, fail: map[string]error{}, contents: map[string]string{},
		alive: map[string]bool{"me": true}, now: time.Unix(1e9, 0),
		sessions: &sessionStore{}, runs: &runStore{}, usage: &usageStore{},
		run: func(context.Context, core.RunSpec) (core.Exit, error) {
			return core.Exit{Stdout: core.Output{Head: []byte("hello\n"), Total: 6}}, nil
		},
	}
}

func settings() app.Settings {
	return app.Settings{
		Images: core.ImagePolicy{"python"}, DefaultImage: "python:3.11-slim", Limits: core.DefaultLimits(),
		Timeout: 30 * time.Second, MaxTimeout: 600 * time.Second, MaxCode: 1 << 20, MaxStdin: 1 << 20,
		MaxInputs: 3, MaxInputBytes: 1 << 10, MaxConcurrent: 4, MaxQueued: 100, MaxWait: time.Minute,
		Output:  core.OutputLimits{Head: 10, Tail: 10, Spill: 100},
		MaxFile: 1000, MaxFiles: 1500, InlineImage: 100 << 10, Dependencies: true, InstallLimit: time.Minute,
		InstallSize: core.DefaultLimits(),
	}
}

func (w *world) service(t *testing.T, s app.Settings) *app.Service {
	t.Helper()
	sources := []app.Source{w.source("fake")}
	return w.serviceOf(t, s, app.NewBackends(sources, app.Preference{Names: []string{"fake"}}, discard()))
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// source lets the world be started under a name.
func (w *world) source(name string) app.Source {
	return app.Source{
		Name:      name,
		Installed: func() error { return w.step("installed") },
		Open: func() app.Plugin {
			w.opened.Add(1)
			return w
		},
	}
}

// serviceOf is a service on any backends, with the files, index and installer of this world.
func (w *world) serviceOf(t *testing.T, s app.Settings, backends *app.Backends) *app.Service {
	t.Helper()
	backends.Start()
	service := app.New(app.Ports{
		Backends: backends, Guests: w, Artifacts: (*files)(w), Installer: w, Index: (*index)(w), Catalog: w,
		Sessions: w.sessions, Runs: w.runs, Usage: w.usage,
		Instance: "inst", Server: "me",
		Alive: func(server string) bool { return w.alive[server] },
		Now:   w.time,
		NewID: w.newID,
		Log:   discard(),
	}, s)
	t.Cleanup(func() {
		_ = service.Close(context.Background())
		_ = backends.Close(context.Background())
	})
	return service
}

func (w *world) time() time.Time {
	if w.ticking != nil {
		w.ticking()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass has some time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	return fmt.Sprintf("id%08d", w.last)
}

// errFault has a step panic.
var errFault = errors.New("a fault")

func (w *world) step(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.fail[name], errFault) {
		panic(name)
	}
	return w.fail[name]
}

func (w *world) counts() (boxes, files int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.boxes), len(w.files)
}

// The backend.

func (w *world) Info(ctx context.Context) (core.Info, error) {
	if w.asked != nil {
		w.asked(ctx)
	}
	info := core.Info{Name: "fake", DefaultImage: w.image, Limits: map[core.Limit]core.Enforcement{}}
	for _, limit := range core.AllLimits() {
		if w.step("hold "+string(limit)) == nil {
			info.Limits[limit] = core.EnforcedSandbox
		}
	}
	return info, errors.Join(ctx.Err(), w.step("info"))
}

func (w *world) Close(context.Context) error {
	w.closed.Add(1)
	return nil
}

func (w *world) EnsureImage(ctx context.Context, ref string, _ core.PullPolicy, _ func(core.Progress)) (core.Image, error) {
	w.hangs(ctx, "image")
	return core.Image{Ref: ref, Digest: "sha256:1", Platform: "linux/amd64"}, errors.Join(ctx.Err(), w.step("image"))
}

// hangs until ctx ends if this is the step to hang at.
func (w *world) hangs(ctx context.Context, step string) {
	if w.hang == step {
		<-ctx.Done()
	}
}

func (w *world) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	w.hangs(ctx, "create")
	if err := errors.Join(ctx.Err(), w.step("create"), w.step("create "+string(spec.Labels.Purpose))); err != nil {
		return core.Box{}, err
	}
	if w.creating != nil {
		w.creating()
	}
	if w.lose != nil {
		return core.Box{}, w.lose
	}
	id := w.newID()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range spec.Mounts {
		if _, ok := w.volumes[m.Volume]; !ok {
			return core.Box{}, core.Errorf(core.ErrNotFound, "no volume %s", m.Volume)
		}
	}
	w.specs = append(w.specs, spec)
	w.mounts[id] = spec.Mounts
	w.boxes[id] = core.Box{ID: id, State: core.BoxRunning, Labels: spec.Labels, Created: w.now, Warnings: w.warns}
	return w.boxes[id], nil
}

func (w *world) Dial(context.Context, string) (io.ReadWriteCloser, error) {
	return nil, errors.New("the fake's guests are not dialled")
}

func (w *world) List(_ context.Context, instance string) (core.Inventory, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all core.Inventory
	for _, b := range w.boxes {
		if b.Labels.Instance == instance {
			all.Boxes = append(all.Boxes, b)
		}
	}
	for _, v := range w.volumes {
		all.Volumes = append(all.Volumes, v)
	}
	return all, w.fail["list"]
}

func (w *world) Destroy(_ context.Context, id string) error {
	if err := w.step("destroy"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.boxes, id)
	return nil
}

func (w *world) EnsureVolume(_ context.Context, v core.Volume) (core.Volume, error) {
	if err := w.step("volume"); err != nil {
		return core.Volume{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if have, there := w.volumes[v.Name]; there {
		return have, nil
	}
	maps.DeleteFunc(w.folders, func(name string, _ bool) bool { return strings.HasPrefix(name, v.Name+"/") })
	v.Created = w.now
	w.volumes[v.Name] = v
	return v, nil
}

func (w *world) RemoveVolume(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.volumes, name)
	return nil
}

// The guests.

func (w *world) Connect(ctx context.Context, backend execution.Backend, id string) (execution.Guest, error) {
	there := backend.(*world)
	if there.hangs(ctx, "connect"); ctx.Err() != nil {
		return nil, core.ContextError(ctx)
	}
	if err := there.step("connect"); err != nil {
		return nil, err
	}
	there.mu.Lock()
	defer there.mu.Unlock()
	if _, exists := there.boxes[id]; !exists {
		return nil, core.Errorf(core.ErrNotFound, "no box %s", id)
	}
	there.guests++
	return guest{there, id, &sync.Once{}}, nil
}

type guest struct {
	*world
	box     string
	closing *sync.Once
}

func (g guest) Run(ctx context.Context, spec core.RunSpec, _ func(core.Stream, []byte)) (core.Exit, error) {
	if err := g.step("run"); err != nil {
		return core.Exit{}, err
	}
	if len(spec.Argv) > 0 && spec.Argv[0] == core.GuestAgent {
		if g.lost(g.box) {
			return core.Exit{}, core.Errorf(core.ErrNotFound, "there is no such box")
		}
		exit := g.agent(ctx, spec.Argv[1:])
		if g.carried != nil {
			g.carried(g.box)
		}
		if g.lost(g.box) {
			return core.Exit{}, core.Errorf(core.ErrUnavailable, "the box is gone")
		}
		return exit, nil
	}
	if folder := g.missing(spec.PythonPath); folder != "" {
		return core.Exit{}, core.Errorf(core.ErrDependency, "no folder %s", folder)
	}
	return g.run(ctx, spec)
}

func (g guest) ReadOutput(_ context.Context, _ string, s core.Stream, w io.Writer, limit int64) (int64, error) {
	n, err := io.WriteString(w, strings.Repeat(string(s[3]), int(limit)))
	return int64(n), errors.Join(err, g.step("output"))
}

func (g guest) Attach(ctx context.Context, run string) (core.Exit, error) {
	return g.run(ctx, core.RunSpec{ID: run})
}

func (guest) Kill(context.Context, string) error { return nil }

func (guest) Output(context.Context, string, core.Stream, int64, int64) (core.OutputPiece, error) {
	return core.OutputPiece{}, core.Errorf(core.ErrNotFound, "this box knows no such run")
}

func (g guest) WriteStdin(ctx context.Context, run string, data []byte, end bool) (int64, error) {
	if g.feed != nil {
		return g.feed(ctx, run, data, end)
	}
	return 0, core.Errorf(core.ErrNotFound, "this box knows no such run")
}

func (g guest) Variables(ctx context.Context) ([]core.Variable, error) {
	if g.hangs(ctx, "variables"); ctx.Err() != nil {
		return nil, core.ContextError(ctx)
	}
	return nil, g.step("variables")
}

func (g guest) ListFiles(_ context.Context, dir string, _ bool) ([]core.FileEntry, error) {
	var entries []core.FileEntry
	for path, data := range g.contents {
		if strings.HasPrefix(path, dir) {
			entries = append(entries, core.FileEntry{Path: path, Kind: core.FileRegular, Size: int64(len(data))})
		}
	}
	return entries, g.step("list files")
}

func (g guest) RemoveFile(_ context.Context, path string) error {
	if _, there := g.contents[path]; !there {
		return core.Errorf(core.ErrNotFound, "the box says so")
	}
	delete(g.contents, path)
	return nil
}

func (g guest) ReadPiece(_ context.Context, path string, offset, limit int64) (core.FilePiece, error) {
	data, there := g.contents[path]
	if !there {
		return core.FilePiece{}, core.Errorf(core.ErrNotFound, "the box says so")
	}
	size := int64(len(data))
	begin := min(offset, size)
	return core.FilePiece{Data: []byte(data[begin:min(begin+limit, size)]), Offset: offset, Total: size}, g.step("read")
}

func (g guest) WriteFile(ctx context.Context, path string, r io.Reader) error {
	if g.hangs(ctx, "write"); ctx.Err() != nil {
		return core.ContextError(ctx)
	}
	data, err := io.ReadAll(r)
	g.contents[path] = string(data)
	return errors.Join(err, g.step("write"))
}

func (g guest) ReadFile(ctx context.Context, path string, w io.Writer, _ int64) (int64, error) {
	if g.reading != nil {
		if err := g.reading(ctx); err != nil {
			return 0, err
		}
	}
	n, err := io.WriteString(w, g.contents[path])
	return int64(n), errors.Join(err, g.step("read"))
}

func (g guest) Preview(_ context.Context, path string, _ int64) (core.Preview, error) {
	return core.Preview{MIMEType: "image/png", Data: []byte(g.contents[path])}, g.step("preview")
}

func (g guest) Close() error {
	g.closing.Do(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.guests--
	})
	return nil
}

// The installer.

func (w *world) Fingerprint() string { return "fp" }
func (w *world) UsesCache() bool     { return true }
func (w *world) Trims() bool         { return w.step("trims") == nil }
func (w *world) Private() bool       { return w.step("private") != nil }
func (w *world) Network() core.Network {
	if w.step("offline") != nil {
		return core.NetworkNone
	}
	return core.NetworkFull
}

func (w *world) Prepare(context.Context, execution.Guest) (core.Ready, error) {
	return core.Ready{Tool: "uv"}, w.step("prepare")
}

func (w *world) Install(ctx context.Context, _ execution.Guest, ready core.Ready, _ []core.Requirement, progress func(core.Progress)) (core.Installed, error) {
	w.installs.Add(1)
	if ready.Tool != "" {
		w.readyInstalls.Add(1)
	}
	progress(core.Progress{Phase: core.PhaseDependencies, Message: "installing"})
	installed := core.Installed{Lock: "six==1.17.0", Report: "installed"}
	if w.install != nil {
		return installed, w.install(ctx)
	}
	return installed, w.step("install")
}

func (w *world) Compile(context.Context, execution.Guest, string) error {
	return w.step("compile")
}

func (w *world) Trim(context.Context, execution.Guest) error {
	w.trims.Add(1)
	return nil
}

func (w *world) Versions(_ context.Context, _ execution.Guest, name string) (core.Package, error) {
	if name == "pandas" {
		return core.Package{Name: name, Versions: []string{"3.0", "2.0"}}, nil
	}
	return core.Package{}, core.Errorf(core.ErrNotFound, "no package %s", name)
}

// Look is the catalog's.
func (w *world) Look(ctx context.Context, name string) (core.Package, error) {
	if w.looking != nil {
		return core.Package{}, w.looking(ctx)
	}
	if err := w.step("default index"); err != nil {
		return core.Package{}, err
	}
	if p, has := w.catalog[name]; has {
		return p, nil
	}
	return core.Package{}, errors.Join(core.Errorf(core.ErrNotFound, "no package %s", name), w.step("catalog"))
}

// The index.

type index world

func (i *index) Get(_ context.Context, key string) (core.Environment, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.index[key]; ok {
		return e, nil
	}
	return core.Environment{}, core.Errorf(core.ErrNotFound, "no environment")
}

func (i *index) Put(_ context.Context, e core.Environment) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.fail["put"]; err != nil {
		return err
	}
	i.index[e.Key] = e
	return nil
}

func (i *index) Touch(_ context.Context, key string, at time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.index[key]
	if !ok {
		return core.Errorf(core.ErrNotFound, "no environment")
	}
	e.Used = at
	i.index[key] = e
	return nil
}

func (i *index) Delete(_ context.Context, key string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.index, key)
	return nil
}

func (i *index) List(context.Context) ([]core.Environment, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []core.Environment
	for _, e := range i.index {
		all = append(all, e)
	}
	return all, nil
}

// The file store.

type files world

type file struct {
	*files
	run, name string
	bytes.Buffer
}

func (f *files) Create(_ context.Context, run, name string) (artifact.Writer, error) {
	return &file{files: f, run: run, name: name}, (*world)(f).step("keep")
}

func (f *file) Abort() {}
func (f *file) Commit(mimeType string) (core.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files.files[f.run+"/"+f.name] = slices.Clone(f.Bytes())
	if mimeType == "" && strings.HasSuffix(f.name, ".png") {
		mimeType = "image/png"
	}
	return core.Artifact{Run: f.run, Name: f.name, Size: int64(f.Len()), MIMEType: mimeType}, nil
}

func (f *files) Open(_ context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, exists := f.files[run+"/"+name]
	if !exists {
		return nil, core.Artifact{}, core.Errorf(core.ErrNotFound, "no file %s", name)
	}
	return readable{bytes.NewReader(data)}, core.Artifact{Run: run, Name: name, Size: int64(len(data))}, nil
}

type readable struct{ *bytes.Reader }

func (readable) Close() error { return nil }

func (f *files) List(_ context.Context, run string) ([]core.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Artifact
	for name := range f.files {
		if name, of := strings.CutPrefix(name, run+"/"); of {
			list = append(list, core.Artifact{Run: run, Name: name})
		}
	}
	return list, nil
}

func (f *files) Remove(context.Context, string) error                 { return nil }
func (f *files) Sweep(context.Context, time.Time, int64) (int, error) { return 0, nil }
