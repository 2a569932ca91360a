package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// uvBox is a box that runs, with network, uv, and a volume for its cache and what it installs.
type uvBox struct {
	guest execution.Guest
	env   map[string]string
	runs  int
	close func()
}

const uvRoom = core.GuestEnvironment // where the volume is

// openUV makes one.
func (b *boxes) openUV(ctx context.Context) (*uvBox, error) {
	spec, err := b.spec(ctx)
	if err != nil {
		return nil, err
	}
	volume := core.Volume{Name: "boxwright-" + b.instance + "-uv", Labels: spec.Labels}
	volume.Labels.Purpose = core.PurposeEnvironment
	if _, err := b.backend.EnsureVolume(ctx, volume); err != nil {
		return nil, err
	}
	spec.Network, spec.Labels.Purpose = core.NetworkFull, core.PurposeInstall
	spec.Mounts = []core.Mount{{Volume: volume.Name, Path: uvRoom, Writable: true}}
	box, err := b.backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	u := &uvBox{env: map[string]string{"TMPDIR": uvRoom, "UV_CACHE_DIR": uvRoom + "/cache", "PIP_CACHE_DIR": uvRoom + "/pip", "UV_NO_PROGRESS": "1"}}
	u.close = func() {
		_ = b.backend.Destroy(ctx, box.ID) // a bench leaves what it cannot remove
		b.removeVolume(ctx, volume.Name)
	}
	if u.guest, err = (&guest.Connector{}).Connect(ctx, b.backend, box.ID); err == nil {
		err = u.furnish(ctx)
	}
	if err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// furnish gives the box the authorities of this host, and uv.
func (u *uvBox) furnish(ctx context.Context) error {
	if bundle := os.Getenv("SSL_CERT_FILE"); bundle != "" {
		f, err := os.Open(bundle) //nolint:gosec // the bench's own environment
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it was only read
		if err := u.guest.WriteFile(ctx, "ca.pem", f); err != nil {
			return err
		}
		u.env["SSL_CERT_FILE"], u.env["PIP_CERT"] = core.GuestWork+"/ca.pem", core.GuestWork+"/ca.pem"
	}
	_, err := u.run(ctx, "python3", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", uvRoom+"/tools", "uv")
	return err
}

// install installs with a cache that has nothing, and returns how long that took.
func (u *uvBox) install(ctx context.Context, packages []string) (time.Duration, error) {
	if _, err := u.run(ctx, "rm", "-rf", uvRoom+"/cache", uvRoom+"/packages"); err != nil {
		return 0, err
	}
	argv := []string{uvRoom + "/tools/bin/uv", "pip", "install", "--quiet", "--python", "python3", "--only-binary", ":all:", "--target", uvRoom + "/packages"}
	return u.run(ctx, append(argv, packages...)...)
}

func (u *uvBox) run(ctx context.Context, argv ...string) (time.Duration, error) {
	u.runs++
	began := time.Now()
	exit, err := u.guest.Run(ctx, core.RunSpec{
		ID: fmt.Sprint("uv", u.runs), Argv: argv, Env: u.env, Timeout: 5 * time.Minute, Output: core.OutputLimits{Head: 1 << 10, Tail: 1 << 10},
	}, nil)
	if err == nil && core.StatusOf(exit) != core.StatusOK {
		err = fmt.Errorf("%s: %s%s", strings.Join(argv, " "), exit.Stdout.Head, exit.Stderr.Head)
	}
	return time.Since(began), err
}

// purge removes what the servers of a state have left in the engine.
func (b *boxes) purge(ctx context.Context, state string) {
	instance, err := os.ReadFile(filepath.Join(state, "instance")) //nolint:gosec // the bench's own folder
	if err != nil {
		return
	}
	inventory, err := b.backend.List(ctx, strings.TrimSpace(string(instance)))
	if err != nil {
		return
	}
	for _, box := range inventory.Boxes {
		_ = b.backend.Destroy(ctx, box.ID) // a bench leaves what it cannot remove
	}
	for _, volume := range inventory.Volumes {
		b.removeVolume(ctx, volume.Name)
	}
}

// removeVolume tries for a while: a box that has it may be on its way out.
func (b *boxes) removeVolume(ctx context.Context, name string) {
	for range 20 {
		if b.backend.RemoveVolume(ctx, name) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
