package guest_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	_ "image/jpeg" // what a preview may be
	"image/png"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func readFile(g execution.Guest, path string) (string, error) {
	var data bytes.Buffer
	_, err := g.ReadFile(context.Background(), path, &data, 64<<20)
	return data.String(), err
}

func TestFiles(t *testing.T) {
	g := start(t, pythonImage)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, data := range map[string][]byte{
		"B04.py":                    []byte("a\nb\\n\"c\"'d'$HOME\\`x\\`"),
		`C:\data\my file.txt`:       []byte("B77"),
		"résumé 漢字 #1?.csv":         []byte("B61"),
		"sub/d/b.bin":               bytes.Repeat(all, 4096), // exactly one piece
		"big.bin":                   bytes.Repeat(all, 20000),
		"e":                         {},
		"/work-is-not-a-prefix"[1:]: []byte("x"),
	} {
		if err := g.WriteFile(t.Context(), name, iotest.OneByteReader(bytes.NewReader(data[:min(len(data), 100)]))); err != nil {
			t.Errorf("write %q: %v", name, err)
		}
		if err := g.WriteFile(t.Context(), name, bytes.NewReader(data)); err != nil {
			t.Errorf("write %q again: %v", name, err)
		}
		if got, err := readFile(g, name); got != string(data) || err != nil {
			t.Errorf("read %q: %d bytes, want %d, %v", name, len(got), len(data), err)
		}
	}
	// What the host has written is no change of the run's, unless the run changes it.
	exit := run(t, g, python("import os\nopen('e', 'a').close()\nopen('B04.py', 'a').write('x')\nos.utime('big.bin', (0, 0))\nprint(sorted(os.listdir(b'.'))[0])"))
	want{stdout: "b'B04.py'\n", files: []string{"B04.py:22", "big.bin:5120000"}}.check(t, exit)

	var data bytes.Buffer
	if n, err := g.ReadFile(t.Context(), "big.bin", &data, 3<<20); !errors.Is(err, core.ErrExhausted) || n != 3<<20 {
		t.Errorf("longer than the limit: %d, %v", n, err)
	}
	if n, err := g.ReadFile(t.Context(), "big.bin", io.Discard, 20000*256); err != nil || n != 20000*256 {
		t.Errorf("exactly the limit: %d, %v", n, err)
	}
	broken := iotest.ErrReader(errors.New("no more"))
	if err := g.WriteFile(t.Context(), "half", io.MultiReader(strings.NewReader(strings.Repeat("x", 3<<20)), broken)); err == nil {
		t.Error("a source that breaks off went unnoticed")
	}
	want{stdout: "[]\n"}.check(t, run(t, g, python("import os; print([n for n in os.listdir('.') if 'half' in n or 'boxwright' in n])")))
}

func TestChangedFiles(t *testing.T) {
	g := start(t, pythonImage)
	t.Run("B61 B62 B66 B71", func(t *testing.T) { filesAreTold(t, g) })
	t.Run("nothing again", func(t *testing.T) {
		exit := run(t, g, python("open('a.csv').read()"))
		want{}.check(t, exit)
		if len(exit.Warnings) != 0 {
			t.Error(exit.Warnings)
		}
	})
	t.Run("B60 links", func(t *testing.T) { linksAreNotFollowed(t, g) })
	t.Run("B58 B59 paths", func(t *testing.T) { pathsAreChecked(t, g) })
	t.Run("B72 missing", func(t *testing.T) {
		if _, err := readFile(g, "nope"); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "nope") {
			t.Error(err)
		}
	})
}

func filesAreTold(t *testing.T, g execution.Guest) {
	t.Helper()

	exit := run(t, g, python(`
import os
open('a.csv','w').write('1'); os.makedirs('sub/d'); open('sub/d/a.csv','w').write('22'); open('e','w').close()
open('résumé 漢字 #1?.csv','w').write('3'); open(b'\xff.bin','wb').write(bytes(range(256))*4096); open('/tmp/b.csv','w')`))
	want{files: []string{"a.csv:1", "e:0", "résumé 漢字 #1?.csv:1", "sub/d/a.csv:2", "\xff.bin:1048576"}}.check(t, exit)
	if text := strings.Join(exit.Warnings, ";"); text != "written outside the workspace and not returned: /tmp/b.csv; write below /work to get files back" {
		t.Errorf("warnings: %s", text)
	}
	if got, err := readFile(g, "\xff.bin"); len(got) != 1<<20 || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func linksAreNotFollowed(t *testing.T, g execution.Guest) {
	t.Helper()
	exit := run(t, g, python(`
import os
os.symlink('/etc/passwd','out.txt'); os.symlink('/etc','dir'); os.symlink('nowhere','dangling'); os.symlink('loop','loop')
os.mkfifo('fifo'); open('plain','w').write('x')`))
	want{files: []string{"plain:1"}}.check(t, exit)
	if len(exit.Warnings) != 5 || !strings.Contains(strings.Join(exit.Warnings, ";"), "out.txt is a symbolic link and is not returned") {
		t.Errorf("warnings: %q", exit.Warnings)
	}
	for _, name := range []string{"out.txt", "dir/passwd", "dangling", "loop", "fifo"} {
		if got, err := readFile(g, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("read %q: %q, %v", name, got, err)
		}
	}
}

func pathsAreChecked(t *testing.T, g execution.Guest) {
	t.Helper()
	if err := g.WriteFile(t.Context(), "a'; touch /tmp/pwn; '", strings.NewReader("x")); !errors.Is(err, core.ErrInvalid) && err != nil {
		t.Error(err)
	}
	for _, name := range []string{"../../etc/x", "/proc/self/environ", "../x", "", "a/../../x", "a\x00b", strings.Repeat("x", 300)} {
		if err := g.WriteFile(t.Context(), name, strings.NewReader("x")); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("write %q: %v", name, err)
		}
		if _, err := readFile(g, name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("read %q: %v", name, err)
		}
	}
	want{stdout: "False\n"}.check(t, run(t, g, python("import os; print(os.path.exists('/tmp/pwn'))")))
}

func TestFullDisk(t *testing.T) {
	g := start(t, pythonImage)
	exit := run(t, g, python("f = open('fill', 'wb')\nwhile 1: f.write(b'0'*10**6)"))
	if exit.Code != 1 || !strings.Contains(string(exit.Stderr.Head), "No space left on device") {
		t.Error(describe(exit))
	}
	if err := g.WriteFile(t.Context(), "more", bytes.NewReader(make([]byte, 3<<20))); !errors.Is(err, core.ErrExhausted) || core.HintOf(err) == "" {
		t.Errorf("write to a full disk: %v", err)
	}
	exit = run(t, g, python("f = open('/tmp/fill', 'wb')\nwhile 1: f.write(b'0'*10**6)"))
	if exit.Code != 1 || !strings.Contains(string(exit.Stderr.Head), "No space left on device") {
		t.Error(describe(exit))
	}
	want{code: 1, stderr: "line 1, in <module>\n    1/0\n"}.check(t, run(t, g, python("1/0")))
}

func TestPythonPath(t *testing.T) {
	g := start(t, pythonImage)
	for name, data := range map[string]string{
		"env/pkg/__init__.py":   "where = 'env'",
		"env/json.py":           "1/0",
		"env/x.pth":             "/work/env/extra\nimport sys; sys.from_pth = True\n",
		"env/extra/other.py":    "y = 2",
		"env/ns/a/__init__.py":  "z = 3",
		"env/setuptools.py":     "where = 'env'",
		"pkg.py":                "where = 'work'",
		"env/bin/tool":          "#!/usr/bin/python3\nimport pkg; print('tool', pkg.where)\n",
		"env2/second/second.py": "",
	} {
		if err := g.WriteFile(t.Context(), name, strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	spec := python(`
import sys, json, pkg, other, ns.a, setuptools, second, os, subprocess
print(pkg.where, other.y, ns.a.z, setuptools.where, sys.from_pth, sys.path[-1])
os.chmod('env/bin/tool', 0o755)
sys.stdout.flush(); subprocess.run(['tool'], check=True)`)
	spec.PythonPath = []string{"/work/env", "/work/env2"}
	exit := run(t, g, spec)
	if exit.Code != 0 || string(exit.Stdout.Head) != "env 2 3 env True /work\ntool env\n" {
		t.Error(describe(exit))
	}
}

func TestPreview(t *testing.T) {
	g := start(t, pythonImage, "--memory", "2g", "--tmpfs", "/work:rw,mode=0700,uid=1000,gid=1000,size=1g")
	small := encode(t, image.NewNRGBA(image.Rect(0, 0, 10, 10)))
	for name, data := range map[string][]byte{
		"small.png": small, "B16.png": encode(t, noise(12000)), "no.png": []byte("no picture"),
		"bomb.png": bomb(small), "short.png": append(small[:len(small)-20:len(small)-20], 0),
	} {
		if err := g.WriteFile(t.Context(), name, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := g.Preview(t.Context(), "small.png", 1<<20)
	if err != nil || !bytes.Equal(p.Data, small) || p.MIMEType != "image/png" || p.Shrunk {
		t.Errorf("small: %v, %d bytes", err, len(p.Data))
	}
	p, err = g.Preview(t.Context(), "B16.png", 500_000)
	if err != nil || len(p.Data) > 500_000 || !p.Shrunk {
		t.Errorf("12000 pixels: %v, %d bytes", err, len(p.Data))
	}
	if _, _, err := image.Decode(bytes.NewReader(p.Data)); err != nil {
		t.Errorf("the preview is broken: %v", err)
	}
	previewsAreRefused(t, g)
	want{stdout: "1\n"}.check(t, run(t, g, python("print(1)")))
}

func previewsAreRefused(t *testing.T, g execution.Guest) {
	t.Helper()
	for name, kind := range map[string]core.Kind{
		"no.png": core.ErrUnsupported, "bomb.png": core.ErrUnsupported, "short.png": core.ErrUnsupported,
		"nothing.png": core.ErrNotFound, "../x.png": core.ErrInvalid,
	} {
		if _, err := g.Preview(t.Context(), name, 30); core.KindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func encode(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// noise is a picture that does not compress well.
func noise(side int) image.Image {
	picture := image.NewGray(image.Rect(0, 0, side, side))
	state := uint32(1)
	for i := range min(len(picture.Pix), 3<<20) { // the rest is black: a file of some megabytes is enough
		state = state*1664525 + 1013904223
		picture.Pix[i] = byte(state >> 28)
	}
	return picture
}

// bomb is a small file that claims to be a huge picture.
func bomb(small []byte) []byte {
	data := bytes.Clone(small)
	copy(data[16:], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // 65536 by 65536
	return fixChecksum(data)
}
