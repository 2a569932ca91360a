package installer

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// dockerGuest reaches a plain container through the docker command: enough of a Guest for the
// installer, so that what it tells package managers is tried on real ones.
type dockerGuest struct {
	execution.Guest
	container string
}

func (g dockerGuest) WriteFile(_ context.Context, path string, r io.Reader) error {
	const program = "import os, sys; os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True); open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
	cmd := exec.Command("docker", "exec", "-i", g.container, "python3", "-c", program, core.GuestWork+"/"+path)
	cmd.Stdin = r
	return cmd.Run()
}

func (g dockerGuest) ReadFile(_ context.Context, path string, w io.Writer, limit int64) (int64, error) {
	content, err := exec.Command("docker", "exec", g.container, "cat", core.GuestWork+"/"+path).Output()
	if err != nil {
		return 0, core.Errorf(core.ErrNotFound, "there is no %s", path)
	}
	if int64(len(content)) > limit {
		return 0, core.Errorf(core.ErrExhausted, "%s is too long", path)
	}
	n, err := w.Write(content)
	return int64(n), err
}

func (g dockerGuest) Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	args := []string{"exec", "-w", core.GuestWork}
	for name, value := range spec.Env {
		args = append(args, "-e", name+"="+value)
	}
	out, err := exec.CommandContext(ctx, "docker", append(append(args, g.container), spec.Argv...)...).CombinedOutput()
	if sink != nil {
		sink(core.Stdout, out)
	}
	exit := core.Exit{Stdout: core.Output{Head: out, Total: int64(len(out))}, TimedOut: ctx.Err() != nil}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		exit.Code, err = failed.ExitCode(), nil
	}
	if exit.Code == 126 || exit.Code == 127 {
		return core.Exit{}, core.Errorf(core.ErrUnsupported, "the image has no %s", spec.Argv[0])
	}
	return exit, err
}

// shell runs a command of the test's own in the container.
func (g dockerGuest) shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("docker", "exec", g.container, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// container starts one with the folders of an installer box, or skips the test.
func container(t *testing.T, options ...string) dockerGuest {
	t.Helper()
	const image = "python:3.11-slim"
	if testing.Short() {
		t.Skip("needs an engine and a package index")
	}
	if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BOXWRIGHT_REQUIRE"), ","), "docker") {
			t.Fatalf("Docker with %s is required: %v", image, err)
		}
		t.Skip("Docker with " + image + " is not here")
	}
	args := slices.Concat([]string{"run", "-d", "--rm", "--label", "boxwright.test=installer"}, options, []string{image, "sleep", "600"})
	id, err := exec.Command("docker", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	g := dockerGuest{container: strings.TrimSpace(string(id))}
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", g.container).Run() })
	g.shell(t, "mkdir -p "+core.GuestWork+" "+core.GuestEnvironment+" "+core.GuestCache)
	return g
}

// checkInstalled imports what was installed, by the bytecode that is compiled for it.
func (g dockerGuest) checkInstalled(t *testing.T, p *Python) {
	t.Helper()
	if leftovers := g.shell(t, "ls -A "+core.GuestEnvironment); strings.Contains(leftovers, ".boxwright") {
		t.Errorf("the temporary folder is still there: %s", leftovers)
	}
	g.shell(t, "mkdir -p "+core.GuestEnvironment+"/pkg/tests; cd "+core.GuestEnvironment+"; echo 1+ >pkg/broken.py; echo 1 | tee pkg/fine.py >pkg/tests/a.py")
	g.shell(t, "mv "+core.GuestEnvironment+" /kept; mkdir "+core.GuestEnvironment)
	if err := p.Compile(t.Context(), g, "/kept"); err != nil {
		t.Fatal(err)
	}
	compiled := g.shell(t, "cd "+core.GuestEnvironment+"; find . -type f | sort; cp -r . /kept")
	if !strings.Contains(compiled, "./__pycache__/six.cpython-") || !strings.Contains(compiled, "./pkg/__pycache__/fine.cpython-") ||
		strings.Contains(compiled, "broken") || strings.Contains(compiled, "tests") {
		t.Errorf("compiled is %s", compiled)
	}
	const program = "import sys; sys.path.insert(0, '/kept'); import six"
	if out := g.shell(t, `python3 -B -v -c "`+program+`" 2>&1`); !strings.Contains(out, "# code object from '/kept/__pycache__/six.cpython-") {
		t.Errorf("six was not loaded from its bytecode: %s", out)
	}
	g.shell(t, "rm -rf /kept "+core.GuestEnvironment+"; mkdir "+core.GuestEnvironment)
}

// TestRealPackageManagers installs with the pip of the image and with the uv that it fetches.
func TestRealPackageManagers(t *testing.T) {
	ca := os.Getenv("SSL_CERT_FILE")
	for _, tool := range []string{"uv", "pip"} {
		t.Run(tool, func(t *testing.T) {
			g := container(t)
			p := New(Options{CABundle: ca})
			if tool == "pip" {
				p.withoutUV.Store(math.MaxInt64)
			}
			installed, err := p.Install(t.Context(), g, core.Ready{}, requirements(t, "six", `tomli; python_version < "3.11"`), func(p core.Progress) { t.Log(p.Message) })
			if err != nil {
				t.Fatal(err)
			}
			if report := installed.Report; !strings.Contains(report, "six") || strings.Contains(report, "tomli==") || strings.Contains(report, "installed tomli") {
				t.Errorf("the report is %q", report)
			}
			g.checkInstalled(t, p)
			_, err = p.Install(t.Context(), g, core.Ready{}, requirements(t, "no-such-pkg-zz9"), nil)
			if !errors.Is(err, core.ErrDependency) || !strings.Contains(err.Error(), "no-such-pkg-zz9") || !strings.Contains(err.Error(), "does not exist in the index") {
				t.Errorf("an unknown package: %v", err)
			}
		})
	}
}
