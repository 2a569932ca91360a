package executiontest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// FakeImage is in a fresh Fake.
const FakeImage = "fake:1"

// FakeRemoteImage is not, but the Fake's registry has it.
const FakeRemoteImage = "registry.example/fake:2"

// FakeDigest is of the content that the Fake has by this name.
func FakeDigest(ref string) string {
	digit := "f"
	if ref != FakeImage {
		digit = "e"
	}
	return "sha256:" + strings.Repeat(digit, 64)
}

// Fake is a backend in memory that keeps the port's promises. Its agent is a goroutine that
// answers the lines "ping", "stop" and "inside FOLDER…", and ends when its box's time is over. Weak
// and Down may be set before use.
type Fake struct {
	Weak core.Limit // this limit is not enforced
	Down bool       // the engine cannot be reached

	mu      sync.Mutex
	images  map[string]bool
	boxes   map[string]*fakeBox
	volumes map[string]*fakeVolume
	fetches int
	failAt  int // a step fails when this counts down to zero
	failed  bool
}

var _ execution.Backend = (*Fake)(nil)

type fakeBox struct {
	core.Box
	mounts  []core.Mount
	foreign bool
	ended   chan struct{}
}

type fakeVolume struct {
	core.Volume
	foreign bool
	touched bool // an agent has left a file
}

// NewFake makes a Fake that has FakeImage.
func NewFake() *Fake {
	return &Fake{images: map[string]bool{FakeImage: true}, boxes: map[string]*fakeBox{}, volumes: map[string]*fakeVolume{}}
}

// Fail makes the nth step from now on fail; fired tells whether it came to that.
func (f *Fake) Fail(n int) (fired func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt, f.failed = n, false
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failAt = 0
		return f.failed
	}
}

// SetDown lets the engine go and come.
func (f *Fake) SetDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Down = down
}

// begin locks the fake for one call.
func (f *Fake) begin(ctx context.Context) (func(), error) {
	if ctx.Err() != nil {
		return nil, core.ContextError(ctx)
	}
	f.mu.Lock()
	if f.Down {
		f.mu.Unlock()
		return nil, core.Errorf(core.ErrUnavailable, "the fake engine is down").WithHint("call SetDown(false)")
	}
	return f.mu.Unlock, nil
}

// step is one thing that the fake engine does.
func (f *Fake) step() error {
	if f.failAt == 0 {
		return nil
	}
	f.failAt--
	if f.failAt > 0 {
		return nil
	}
	f.failed = true
	return core.Errorf(core.ErrInternal, "the step was made to fail")
}

// Info implements execution.Backend.
func (f *Fake) Info(ctx context.Context) (core.Info, error) {
	end, err := f.begin(ctx)
	if err != nil {
		return core.Info{}, err
	}
	defer end()
	return core.Info{Name: "fake", Version: "1", Engine: "memory", EngineVersion: "1", Platform: "linux/amd64", Limits: f.limits()}, nil
}

func (f *Fake) limits() map[core.Limit]core.Enforcement {
	limits := map[core.Limit]core.Enforcement{}
	for _, limit := range core.AllLimits() {
		limits[limit] = core.EnforcedSandbox
	}
	if f.Weak != "" {
		limits[f.Weak] = core.EnforcedNot
	}
	return limits
}

// EnsureImage implements execution.Backend.
func (f *Fake) EnsureImage(ctx context.Context, ref string, policy core.PullPolicy, progress func(core.Progress)) (core.Image, error) {
	if _, err := core.NormalizeImage(ref); err != nil {
		return core.Image{}, err
	}
	end, err := f.begin(ctx)
	if err != nil {
		return core.Image{}, err
	}
	defer end()
	if !f.images[ref] || policy == core.PullAlways {
		if policy == core.PullNever || ref != FakeRemoteImage && !f.images[ref] {
			return core.Image{}, core.Errorf(core.ErrNotFound, "there is no image %s", ref)
		}
		if progress != nil {
			progress(core.Progress{Phase: core.PhaseImage, Message: "fetching", Done: 1, Total: 1})
		}
		f.fetches++
		f.images[ref] = true
	}
	return core.Image{Ref: ref, Digest: FakeDigest(ref), Platform: "linux/amd64"}, nil
}

// Create implements execution.Backend.
func (f *Fake) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	if err := f.check(spec); err != nil {
		return core.Box{}, err
	}
	end, err := f.begin(ctx)
	if err != nil {
		return core.Box{}, err
	}
	defer end()
	warned, err := f.admit(spec)
	if err != nil {
		return core.Box{}, err
	}
	box := &fakeBox{mounts: spec.Mounts, ended: make(chan struct{}), Box: core.Box{
		ID: strings.ToLower(rand.Text()), Image: spec.Image, Labels: spec.Labels, Created: time.Now(), Warnings: warned,
	}}
	f.boxes[box.ID] = box
	for _, do := range []func(){func() {}, func() { box.State = core.BoxRunning }} {
		if err := f.step(); err != nil {
			delete(f.boxes, box.ID)
			return core.Box{}, err
		}
		do()
	}
	if end := spec.Labels.Expires; !end.IsZero() {
		time.AfterFunc(time.Until(end), func() { f.stop(box) })
	}
	return box.Box, nil
}

func (f *Fake) check(spec core.BoxSpec) error {
	if err := spec.Limits.Validate(); err != nil {
		return err
	}
	if spec.Network != core.NetworkNone && spec.Network != core.NetworkFull {
		return core.Errorf(core.ErrInvalid, "unknown network")
	}
	if spec.Digest != "" && !isDigest(spec.Digest) {
		return core.Errorf(core.ErrInvalid, "bad digest")
	}
	for _, m := range spec.Mounts {
		clean := strings.HasPrefix(m.Path, "/") && !strings.Contains(m.Path, "..") && !isWithin(m.Path, core.GuestBin) && !isWithin(core.GuestBin, m.Path)
		if !isVolumeName(m.Volume) || !clean {
			return core.Errorf(core.ErrInvalid, "bad mount")
		}
	}
	return nil
}

// admit looks for what the spec names.
func (f *Fake) admit(spec core.BoxSpec) ([]string, error) {
	if !f.hasContent(spec) {
		return nil, core.Errorf(core.ErrNotFound, "there is no image %s", spec.Image)
	}
	for _, m := range spec.Mounts {
		if v, ok := f.volumes[m.Volume]; !ok || v.foreign {
			return nil, core.Errorf(core.ErrNotFound, "there is no volume %s", m.Volume)
		}
	}
	if f.Weak == "" {
		return nil, nil
	}
	if spec.Unenforced != core.UnenforcedWarn {
		return nil, core.Errorf(core.ErrUnsupported, "the %s limit would not hold", f.Weak)
	}
	return []string{fmt.Sprintf("the %s limit does not hold", f.Weak)}, nil
}

func (f *Fake) hasContent(spec core.BoxSpec) bool {
	if spec.Digest == "" {
		return f.images[spec.Image]
	}
	for ref := range f.images {
		if FakeDigest(ref) == spec.Digest {
			return true
		}
	}
	return false
}

// Dial implements execution.Backend.
func (f *Fake) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	end, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	b, ok := f.boxes[box]
	switch {
	case !ok || b.foreign:
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	case b.State != core.BoxRunning:
		return nil, core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	ours, theirs := net.Pipe()
	go f.serve(b, theirs)
	return ours, nil
}

// serve is the agent's end of a stream.
func (f *Fake) serve(b *fakeBox, conn net.Conn) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-b.ended:
		case <-done:
		}
		_ = conn.Close()
	}()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		reply := "pong"
		switch verb {
		case "stop":
			f.stop(b)
			return
		case "inside":
			raw, _ := json.Marshal(f.inside(b, strings.Fields(rest))) // it is a plain struct
			reply = string(raw)
		}
		if _, err := fmt.Fprintln(conn, reply); err != nil {
			return
		}
	}
}

func (f *Fake) stop(b *fakeBox) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.State == core.BoxRunning {
		b.State = core.BoxStopped
		close(b.ended)
	}
}

func (f *Fake) inside(b *fakeBox, folders []string) Inside {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := Inside{
		PID: 1, UID: core.GuestUID, GID: core.GuestGID, NoNewPrivs: true, RootMounted: "ro",
		Writable: map[string]bool{}, Seen: map[string]bool{},
	}
	for _, folder := range folders {
		in.Writable[folder] = slices.Contains([]string{core.GuestWork, core.GuestHome, core.GuestTmp}, folder)
		for _, m := range b.mounts {
			if m.Path == folder {
				v := f.volumes[m.Volume]
				in.Writable[folder], in.Seen[folder] = m.Writable, v.touched
				v.touched = v.touched || m.Writable
			}
		}
	}
	return in
}

// List implements execution.Backend.
func (f *Fake) List(ctx context.Context, instance string) (core.Inventory, error) {
	end, err := f.begin(ctx)
	if err != nil {
		return core.Inventory{}, err
	}
	defer end()
	var have core.Inventory
	for _, id := range slices.Sorted(maps.Keys(f.boxes)) {
		if b := f.boxes[id]; !b.foreign && b.Labels.Instance == instance {
			have.Boxes = append(have.Boxes, b.Box)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.volumes)) {
		if v := f.volumes[name]; !v.foreign && v.Labels.Instance == instance {
			have.Volumes = append(have.Volumes, v.Volume)
		}
	}
	return have, nil
}

// Destroy implements execution.Backend.
func (f *Fake) Destroy(ctx context.Context, box string) error {
	end, err := f.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	b, ok := f.boxes[box]
	switch {
	case !ok:
		return nil
	case b.foreign:
		return core.Errorf(core.ErrNotFound, "there is no such box")
	}
	if b.State == core.BoxRunning {
		close(b.ended)
	}
	delete(f.boxes, box)
	return nil
}

// EnsureVolume implements execution.Backend.
func (f *Fake) EnsureVolume(ctx context.Context, v core.Volume) (core.Volume, error) {
	if !isVolumeName(v.Name) {
		return core.Volume{}, core.Errorf(core.ErrInvalid, "%q is not a name of a volume", v.Name)
	}
	end, err := f.begin(ctx)
	if err != nil {
		return core.Volume{}, err
	}
	defer end()
	have, ok := f.volumes[v.Name]
	if !ok {
		v.Created = time.Now()
		have = &fakeVolume{Volume: v}
		f.volumes[v.Name] = have
	}
	if have.foreign {
		return core.Volume{}, core.Errorf(core.ErrNotFound, "volume %s is not Boxwright's", v.Name)
	}
	return have.Volume, nil
}

// RemoveVolume implements execution.Backend.
func (f *Fake) RemoveVolume(ctx context.Context, name string) error {
	end, err := f.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	v, ok := f.volumes[name]
	switch {
	case !ok:
		return nil
	case v.foreign:
		return core.Errorf(core.ErrNotFound, "there is no volume %s", name)
	}
	for _, b := range f.boxes {
		if slices.ContainsFunc(b.mounts, func(m core.Mount) bool { return m.Volume == name }) {
			return core.Errorf(core.ErrUnavailable, "volume %s is in use", name)
		}
	}
	delete(f.volumes, name)
	return nil
}

func isDigest(text string) bool { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(text) }

// isWithin reports whether the clean path is folder, or below it.
func isWithin(path, folder string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(folder, "/")+"/")
}

func isVolumeName(name string) bool {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,127}$`).MatchString(name)
}
