package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/agentfile"
	"github.com/boxwright/boxwright/plugins/sdk/folders"
)

// backend implements execution.Backend. What it made is in its folders, also for the next process. Its
// calls are short, so most leave it to the SDK to look at ctx, and to remove a box that comes too late.
type backend struct {
	boxes   folders.Boxes
	volumes folders.Volumes
	agents  *agentfile.Files
}

// limits tells what makes each limit hold. What bubblewrap cannot do, the agent does.
func limits() map[core.Limit]core.Enforcement {
	return map[core.Limit]core.Enforcement{
		core.LimitMemory:  core.EnforcedRlimit, // see core.BoxSpec.AgentArgs
		core.LimitPIDs:    core.EnforcedRlimit,
		core.LimitDisk:    core.EnforcedSandbox,
		core.LimitNetwork: core.EnforcedSandbox,
		core.LimitCPU:     core.EnforcedNot,
	}
}

// Info implements execution.Backend.
func (b *backend) Info(ctx context.Context) (core.Info, error) {
	version, err := exec.CommandContext(ctx, "bwrap", "--version").Output()
	if err != nil {
		return core.Info{}, core.Errorf(core.ErrUnavailable, "bubblewrap does not run: %w", err).WithHint("install bubblewrap")
	}
	return core.Info{
		Name: "example", Version: "1", Engine: "bubblewrap", EngineVersion: strings.Fields(string(version))[1],
		Platform: "linux/" + runtime.GOARCH, Limits: limits(), DefaultImage: core.ImageHost,
		Warnings: []string{"code in a box can reach its own agent: a box has one user only"},
	}, nil
}

// hostDigest stands for the programs of the machine.
func hostDigest() string {
	release, _ := os.ReadFile("/etc/os-release") // a machine without one has an empty one
	return fmt.Sprintf("sha256:%x", sha256.Sum256(release))
}

// EnsureImage implements execution.Backend. Nothing is ever fetched.
func (b *backend) EnsureImage(_ context.Context, ref string, _ core.PullPolicy, _ func(core.Progress)) (core.Image, error) {
	if _, err := core.NormalizeImage(ref); err != nil {
		return core.Image{}, err
	}
	return core.Image{Ref: ref, Digest: hostDigest(), Platform: "linux/" + runtime.GOARCH}, hasImage(ref, "")
}

func hasImage(ref, digest string) error {
	if digest == hostDigest() || digest == "" && ref == core.ImageHost {
		return nil
	}
	return core.Errorf(core.ErrNotFound, "there is no image %s", ref).WithHint("the only image is %s", core.ImageHost)
}

// List implements execution.Backend.
func (b *backend) List(_ context.Context, instance string) (core.Inventory, error) {
	have := core.Inventory{Volumes: b.volumes.Of(instance)}
	for _, box := range b.boxes.Of(instance) {
		have.Boxes = append(have.Boxes, box.Describe(b.pid(box.ID) != 0))
	}
	return have, nil
}

// EnsureVolume implements execution.Backend.
func (b *backend) EnsureVolume(_ context.Context, v core.Volume) (core.Volume, error) {
	return b.volumes.Ensure(v)
}

// RemoveVolume implements execution.Backend.
func (b *backend) RemoveVolume(_ context.Context, name string) error { return b.volumes.Remove(name) }
