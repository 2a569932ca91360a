//go:build remote && containers_image_openpgp

package podman

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/images"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// changed makes an image like the empty one, with lines of a Dockerfile.
func (l *lab) changed(t *testing.T, changes ...string) (ref string) {
	t.Helper()
	ref = "boxwright-test/changed:" + strings.TrimPrefix(executiontest.NewInstance(), "test-")
	options := new(images.ImportOptions).WithReference(localHost + "/" + ref).WithChanges(changes)
	if _, err := images.Import(l.use(t.Context()), daemontest.EmptyImage(), options); err != nil {
		t.Fatal(err)
	}
	l.removeImage(t, localHost+"/"+ref)
	return ref
}

func (l *lab) processes(t *testing.T, box string) ([]string, error) {
	t.Helper()
	lines, err := containers.Top(l.use(t.Context()), box, new(containers.TopOptions).WithDescriptors([]string{"args"}))
	if len(lines) > 0 {
		lines = lines[1:] // the heading
	}
	return lines, err
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

// ask sends the stand-in a line, and decodes its answer.
func ask(t *testing.T, env executiontest.Env, box, line string, into any) {
	t.Helper()
	stream, err := env.Backend.Dial(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	fmt.Fprintln(stream, line)
	answer, err := bufio.NewReader(stream).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatal(err)
	}
}

// TestImageCannotHaveVolumes: an image's VOLUME would be a folder on the disk of the engine's
// machine that no limit bounds.
func TestImageCannotHaveVolumes(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		declared := []string{"/data", "/data/deep", "/srv/../var/db", "/etc/", "/home", "/opt", core.GuestWork + "/db", core.GuestTmp}
		raw, _ := json.Marshal(declared)
		env := l.remoteEnv(t, l.backend(nil))
		env.Image = l.changed(t, "VOLUME "+string(raw), `ENTRYPOINT ["/bin/false"]`, "ENV SECRET=1", "USER 0")
		t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
		box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
		if err != nil {
			t.Fatal(err)
		}
		have, err := containers.Inspect(l.use(t.Context()), box.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range have.Mounts {
			if m.Type == "volume" && m.Destination != core.GuestBin {
				t.Errorf("volume %s is mounted at %s", m.Name, m.Destination)
			}
		}
		folders := []string{"/data", "/data/deep", "/var/db", "/etc", "/home", "/opt"}
		in := inside(t, env, box.ID, append(folders, core.GuestWork, core.GuestHome, core.GuestTmp)...)
		for _, folder := range folders {
			if in.Writable[folder] {
				t.Errorf("%s is writable", folder)
			}
		}
		if !in.Writable[core.GuestWork] || !in.Writable[core.GuestHome] || !in.Writable[core.GuestTmp] {
			t.Errorf("a folder of the box is not writable any more: %+v", in.Writable)
		}
	})
}

// TestNothingOfTheHosts: what Podman would put into a container by itself stays out.
func TestNothingOfTheHosts(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		env := l.remoteEnv(t, l.backend(nil))
		env.Image = l.changed(t, "ENV OF_THE_IMAGE=yes")
		t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
		box, err := env.Backend.Create(t.Context(), daemontest.Spec(env))
		if err != nil {
			t.Fatal(err)
		}
		variables := inside(t, env, box.ID).Env
		if !slices.Contains(variables, "OF_THE_IMAGE=yes") {
			t.Errorf("the image's environment is lost: %q", variables)
		}
		for _, v := range variables {
			if name, _, _ := strings.Cut(v, "="); strings.Contains(strings.ToLower(name), "proxy") {
				t.Errorf("it has %s", v)
			}
		}
		var hosts string
		ask(t, env, box.ID, "read /etc/hosts", &hosts)
		if hosts != hostsContent {
			t.Errorf("/etc/hosts is %q", hosts)
		}
		var systems map[string]string
		ask(t, env, box.ID, "mounts", &systems)
		for _, folder := range []string{core.GuestWork, core.GuestHome, core.GuestTmp, "/run/secrets"} {
			if systems[folder] != "tmpfs" {
				t.Errorf("%s is on %q", folder, systems[folder])
			}
		}
		if name, err := os.Hostname(); err == nil && name != "box" && strings.Contains(hosts, name) {
			t.Errorf("it knows the host's name: %q", hosts)
		}
	})
}

// TestBoxIsMadeOfItsDigest: the name means another image when the box is asked for.
func TestBoxIsMadeOfItsDigest(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		env := l.remoteEnv(t, l.backend(nil))
		ctx := l.use(t.Context())
		first, second := l.changed(t, "ENV WHICH=first"), l.changed(t, "ENV WHICH=second")
		t.Cleanup(func() { executiontest.Sweep(context.WithoutCancel(t.Context()), env) })
		wanted, err := env.Backend.EnsureImage(t.Context(), first, core.PullNever, nil)
		if err != nil {
			t.Fatal(err)
		}
		repository, tag, _ := strings.Cut(localHost+"/"+first, ":")
		kept := localHost + "/" + first + "-kept"
		l.removeImage(t, kept)
		if err := images.Tag(ctx, localHost+"/"+first, tag+"-kept", repository, nil); err != nil {
			t.Fatal(err)
		}
		if err := images.Tag(ctx, localHost+"/"+second, tag, repository, nil); err != nil {
			t.Fatal(err)
		}
		spec := daemontest.Spec(env)
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
		if _, errs := images.Remove(ctx, []string{kept}, nil); len(errs) > 0 {
			t.Fatal(errs)
		}
		if _, err := env.Backend.Create(t.Context(), spec); core.KindOf(err) != core.ErrNotFound || !strings.Contains(err.Error(), first) {
			t.Errorf("the content is gone: %v", err)
		}
	})
}
