package e2e

import (
	"strings"
	"testing"
)

// onHost are the settings of runs on the machine's own programs.
const onHost = "images: {default: host}\n"

// TestHostImage: the programs of the machine, and nothing else of it.
func TestHostImage(t *testing.T) {
	require(t, "engine")
	onlyWhere(t, here().Backend == "gvisor", "it makes boxes of images only")
	t.Parallel()
	s := serve(t, setup{pooled: true, config: onHost})
	r := s.run(t, program(`import os, pathlib
print(sorted(set(os.listdir('/')) - {'usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'}))
for place in '/root', '/home', '/var', '/run', '/etc/shadow', '/etc/ssh', '/etc/machine-id', '/usr/src', '/mnt', '/srv':
    path = pathlib.Path(place)
    seen = sorted(p.name for p in path.iterdir()) if path.is_dir() else [path.read_text()] if path.exists() else []
    if seen: print(place, seen)
print([line.split(':')[0] for line in open('/etc/passwd')])
try: open('/usr/bin/x', 'w')
except OSError as e: print(e.strerror)
import ssl, sqlite3, zlib, ctypes, subprocess
print(subprocess.run(['ls', '/work'], capture_output=True, text=True).returncode)`))
	outcome{any: true}.check(t, r)
	if r.Image != "host" {
		t.Errorf("the image is %q", r.Image)
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	want := []string{
		"['dev', 'etc', 'home', 'opt', 'proc', 'sys', 'tmp', 'work']",
		"/home ['box']",
		"['root', 'box', 'nobody']",
		"Permission denied",
		"0",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestHostImagePlots installs packages for the machine's own Python, and draws.
func TestHostImagePlots(t *testing.T) {
	require(t, "engine")
	onlyWhere(t, here().Backend == "gvisor", "it makes boxes of images only")
	t.Parallel()
	s := serve(t, setup{config: onHost})
	plot := program("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('a.png')", "dependencies", []string{"matplotlib"}, "timeout_seconds", 120)
	outcome{files: []string{"a.png"}, images: 1}.check(t, s.run(t, plot))
	if again := s.run(t, plot); again.InstallLog != "" {
		t.Error("it was installed twice")
	}
}

// TestNoEngineAtAll: with no settings, a machine without an engine has gVisor, and the log says why.
func TestNoEngineAtAll(t *testing.T) {
	require(t, "engine")
	onlyWhere(t, here().Backend == "gvisor", "it is an engine")
	t.Parallel()
	s := serve(t, setup{
		config: "backend: auto\n" + onHost,
		env:    []string{"DOCKER_HOST=unix:///nowhere/docker.sock", "CONTAINER_HOST=unix:///nowhere/podman.sock"},
	})
	r := s.run(t, program("print('no engine')"))
	outcome{stdout: "no engine\n"}.check(t, r)
	holds(t, s.stderr.String(), "gvisor", "/nowhere/docker.sock", "/nowhere/podman.sock")
}
