package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// commit makes an image of the empty one, with lines of a Dockerfile.
func (l *lab) commit(t *testing.T, changes ...string) string {
	t.Helper()
	ref := "boxwright-test/changed:" + strings.TrimPrefix(executiontest.NewInstance(), "test-")
	made, err := l.api.ContainerCreate(t.Context(), &container.Config{Image: testImage, Cmd: []string{"x"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.api.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, container.RemoveOptions{})
	l.removeImage(t, ref)
	if _, err := l.api.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestImageCannotHaveVolumes: an image's VOLUME would be a folder on the disk of the engine's
// machine that no limit bounds.
func TestImageCannotHaveVolumes(t *testing.T) {
	lab := newLab(t)
	lab.ownAgent(t) // then the helper that fills its volume is made of this image, too
	declared := []string{"/data", "/data/deep", "/srv/../var/db", "/etc/", "/home", "/opt", core.GuestWork + "/db", core.GuestHome + "/.cache"}
	raw, _ := json.Marshal(declared)
	env := lab.remoteEnv(t, lab.backend(nil))
	env.Image = lab.commit(t, "VOLUME "+string(raw), `ENTRYPOINT ["/bin/false"]`, "ENV SECRET=1", "USER 0", "HEALTHCHECK CMD /bin/false")
	t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
	box, err := env.Backend.Create(t.Context(), specOf(env))
	if err != nil {
		t.Fatal(err)
	}
	have, err := lab.api.ContainerInspect(t.Context(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range have.Mounts {
		if m.Type == mount.TypeVolume && m.Destination != core.GuestBin {
			t.Errorf("volume %s is mounted at %s", m.Name, m.Destination)
		}
	}
	folders := []string{"/data", "/data/deep", "/var/db", "/etc", "/home", "/opt", core.GuestWork + "/db", core.GuestHome + "/.cache"}
	in := inside(t, env, box.ID, append(folders, core.GuestWork, core.GuestHome, core.GuestTmp)...)
	for _, folder := range folders {
		if in.Writable[folder] {
			t.Errorf("%s is writable", folder)
		}
	}
	if !in.Writable[core.GuestWork] || !in.Writable[core.GuestHome] || !in.Writable[core.GuestTmp] {
		t.Errorf("a folder of the box is not writable any more: %+v", in.Writable)
	}
}

// TestImagesVolumeOnOurFolders: what Boxwright mounts there stays, with its limit. The engine
// makes a volume nevertheless, which it does not mount; it goes with the box.
func TestImagesVolumeOnOurFolders(t *testing.T) {
	lab := newLab(t)
	env := lab.remoteEnv(t, lab.backend(nil))
	env.Image = lab.commit(t, fmt.Sprintf("VOLUME %s %s %s", core.GuestWork, core.GuestHome, core.GuestTmp))
	t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
	box, err := env.Backend.Create(t.Context(), specOf(env))
	if err != nil {
		t.Fatal(err)
	}
	have, err := lab.api.ContainerInspect(t.Context(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	systems := fileSystems(t, env, box.ID)
	for _, folder := range []string{core.GuestWork, core.GuestHome, core.GuestTmp} {
		if systems[folder] != "tmpfs" {
			t.Errorf("%s is on %q", folder, systems[folder])
		}
	}
	if err := env.Backend.Destroy(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	for _, m := range have.Mounts {
		if m.Destination == core.GuestBin {
			continue
		}
		if _, err := lab.api.VolumeInspect(t.Context(), m.Name); notFoundIsFine(err) != nil || err == nil {
			t.Errorf("the volume for %s is left (%v)", m.Destination, err)
		}
	}
}

func inside(t *testing.T, env executiontest.Env, box string, folders ...string) executiontest.Inside {
	t.Helper()
	stream, err := env.Backend.Dial(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	in, err := env.Hooks.Inside(t.Context(), stream, folders)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// fileSystems asks the stand-in what is mounted where.
func fileSystems(t *testing.T, env executiontest.Env, box string) (systems map[string]string) {
	t.Helper()
	stream, err := env.Backend.Dial(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	fmt.Fprintln(stream, "mounts")
	line, err := bufio.NewReader(stream).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &systems); err != nil {
		t.Fatal(err)
	}
	return systems
}

func TestVolumesThatNoBoxCanHave(t *testing.T) {
	spec := core.BoxSpec{Image: "x", Mounts: []core.Mount{{Path: core.GuestEnvironment}, {Path: core.GuestCache, Writable: true}}}
	for _, folder := range []string{"/", "data", "", "/..", core.GuestEnvironment + "/x", core.GuestBin, core.GuestAgent, core.GuestBin + "/x/.."} {
		if _, err := imageVolumes(spec, map[string]struct{}{folder: {}}); core.KindOf(err) != core.ErrUnsupported {
			t.Errorf("%q: got %v", folder, err)
		}
	}
	many := map[string]struct{}{}
	for i := range maxVolumes + 1 {
		many[fmt.Sprint("/v", i)] = struct{}{}
	}
	if _, err := imageVolumes(spec, many); core.KindOf(err) != core.ErrUnsupported {
		t.Errorf("too many: got %v", err)
	}
	got, err := imageVolumes(spec, map[string]struct{}{"/b/": {}, "/b": {}, "/a/../c": {}, core.GuestBin + "s": {}, core.GuestEnvironment: {}, core.GuestCache + "/x": {}})
	if want := []string{"/b", "/c", core.GuestBin + "s", core.GuestCache + "/x", core.GuestEnvironment}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestBoxIsMadeOfItsDigest: the name means another image when the box is asked for.
func TestBoxIsMadeOfItsDigest(t *testing.T) {
	lab := newLab(t)
	env := lab.remoteEnv(t, lab.backend(nil))
	first, second := lab.commit(t, "ENV WHICH=first"), lab.commit(t, "ENV WHICH=second")
	t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
	wanted, err := env.Backend.EnsureImage(t.Context(), first, core.PullNever, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.api.ImageTag(t.Context(), first, first+"-kept"); err != nil {
		t.Fatal(err)
	}
	lab.removeImage(t, first+"-kept")
	if err := lab.api.ImageTag(t.Context(), second, first); err != nil {
		t.Fatal(err)
	}
	spec := specOf(env)
	spec.Image, spec.Digest = first, wanted.Digest
	box, err := env.Backend.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if in := inside(t, env, box.ID); !slices.Contains(in.Env, "WHICH=first") {
		t.Errorf("it is another image's: %q", in.Env)
	}
	if err := env.Backend.Destroy(t.Context(), box.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.api.ImageRemove(t.Context(), first+"-kept", image.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Backend.Create(t.Context(), spec); core.KindOf(err) != core.ErrNotFound || !strings.Contains(err.Error(), first) {
		t.Errorf("the content is gone: %v", err)
	}
}
