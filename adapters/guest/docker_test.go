package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

const (
	pythonImage  = "python:3.11-slim"
	emptyImage   = "boxwright-test/empty:1"
	busyboxImage = "boxwright-test/busybox:1"
)

// rig holds what all tests of a run of "go test" share: the volume with the agent in it.
type rig struct {
	once   sync.Once
	volume string
	err    error
}

var shared rig

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.volume != "" {
		_ = engine("volume", "rm", "-f", shared.volume).Run()
	}
	os.Exit(code)
}

// box is a container with the agent in it, and the only part of a backend that a connector needs.
type box struct {
	execution.Backend
	id string

	mu    sync.Mutex
	dials []*exec.Cmd
}

// engine is a call of the engine's command. BOXWRIGHT_TEST_ENGINE names another than Docker's that takes the
// same words, such as "podman --remote --url unix:///…", for tests that need nothing but containers.
func engine(args ...string) *exec.Cmd {
	command := append(strings.Fields(os.Getenv("BOXWRIGHT_TEST_ENGINE")), args...)
	if len(command) == len(args) {
		command = append([]string{"docker"}, args...)
	}
	return exec.Command(command[0], command[1:]...)
}

func docker(args ...string) (string, error) {
	out, err := engine(args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("docker %s: %w: %s", args[0], err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// found has what was found out about the engine, by what it was.
var found sync.Map

// known finds something out about the engine once: each call of its command takes a tenth of a second.
func known(what string, look func() error) error {
	once, _ := found.LoadOrStore(what, sync.OnceValue(look))
	return once.(func() error)()
}

// require skips a test for want of Docker or an image, unless that is forbidden.
func require(t *testing.T, image string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Docker: skipped with -short")
	}
	err := known(image, func() error {
		_, err := docker("image", "inspect", image)
		return err
	})
	if err == nil {
		return
	}
	if strings.Contains(os.Getenv("BOXWRIGHT_REQUIRE"), "docker") {
		t.Fatalf("Docker with %s is required: %v", image, err)
	}
	t.Skipf("needs Docker with %s; hack/docker-up.sh, hack/base-image.sh and hack/test-images.sh make it", image)
}

// deliver builds the agent and puts it into a volume, as a backend does.
func (r *rig) deliver() error {
	dir, err := os.MkdirTemp("", "boxwright-agent")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := readSources("../../cmd/boxwright-agent"); err != nil {
		return err
	}
	agent := filepath.Join(dir, "boxwright-agent")
	build := exec.Command("go", "build", "-o", agent, "github.com/boxwright/boxwright/cmd/boxwright-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the agent: %w: %s", err, out)
	}
	if r.volume, err = docker("volume", "create", "--label", "boxwright-test=1"); err != nil {
		return err
	}
	helper, err := docker("create", "--label", "boxwright-test=1", "-v", r.volume+":"+core.GuestBin, pythonImage, "true")
	if err != nil {
		return err
	}
	defer docker("rm", "-f", helper)
	_, err = docker("cp", agent, helper+":"+core.GuestAgent)
	return err
}

// readSources tells "go test" on which files its cached result depends.
func readSources(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
}

// newBox starts a box as strict as a backend's. Options are added to "docker create".
func newBox(tb testing.TB, image string, options ...string) *box {
	tb.Helper()
	shared.once.Do(func() { shared.err = shared.deliver() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	var agentFlags []string
	for i, option := range options {
		if option == "--" {
			options, agentFlags = options[:i], options[i+1:]
			break
		}
	}
	options, agentFlags = keeper(os.Getenv("BOXWRIGHT_TEST_RUNTIME")).bound(options, agentFlags)
	tmpfs := ":rw,nosuid,nodev,exec,mode=0700,uid=1000,gid=1000,size=64m"
	if os.Getenv("BOXWRIGHT_TEST_ENGINE") != "" {
		tmpfs = ":rw,nosuid,nodev,exec,mode=1777,size=64m" // Podman gives it to nobody
	}
	args := append([]string{
		"run", "-d", "--label", "boxwright-test=1", "--user", "1000:1000", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--read-only", "--network", "none",
		"--tmpfs", core.GuestWork + tmpfs, "--tmpfs", core.GuestHome + tmpfs, "--tmpfs", core.GuestTmp + tmpfs,
		"-v", shared.volume + ":" + core.GuestBin + ":ro", "--workdir", "/", "--entrypoint", core.GuestAgent,
	}, options...)
	id, err := docker(append(append(args, image), agentFlags...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			logs, _ := engine("logs", id).CombinedOutput()
			state, _ := docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}", id)
			tb.Logf("the box is %s; the agent's log: %s", state, logs)
		}
		if os.Getenv("BOXWRIGHT_TEST_ENGINE") != "" {
			_, _ = docker("kill", id) // Podman would ask the agent first, and wait
		}
		_, _ = docker("rm", "-f", "-v", id)
	})
	b := &box{id: id}
	if slices.Contains(options, "runsc") {
		go func() { // an exec does not always end with the box that it is in
			_, _ = docker("wait", id)
			b.cut()
		}()
	}
	return b
}

// Dial implements the one method of execution.Backend that is used.
func (b *box) Dial(context.Context, string) (io.ReadWriteCloser, error) {
	command := engine("exec", "-i", "--user", fmt.Sprintf("%d:%d", core.DialUID, core.DialGID), b.id, core.GuestAgent, "dial")
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.dials = append(b.dials, command)
	b.mu.Unlock()
	return &execStream{Reader: out, WriteCloser: in, command: command}, nil
}

// cut breaks all streams to the box.
func (b *box) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, command := range b.dials {
		_ = command.Process.Kill()
	}
	b.dials = nil
}

type execStream struct {
	io.Reader
	io.WriteCloser
	command *exec.Cmd
}

func (s *execStream) Close() error {
	_ = s.WriteCloser.Close()
	_ = s.command.Process.Kill()
	go func() { _ = s.command.Wait() }()
	return nil
}

func connect(tb testing.TB, b *box) execution.Guest {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	g, err := guest.New().Connect(ctx, b, b.id)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.Close() })
	return g
}

// diedOfMemory reports whether the kernel ended the box, or something in it, for want of memory.
func (b *box) diedOfMemory() bool {
	state, err := docker("inspect", "-f", "{{.State.Running}} {{.State.OOMKilled}}", b.id)
	return err == nil && state == "false true"
}

// start returns a connected box of the image.
func start(t *testing.T, image string, options ...string) execution.Guest {
	t.Helper()
	require(t, image)
	return connect(t, newBox(t, image, options...))
}
