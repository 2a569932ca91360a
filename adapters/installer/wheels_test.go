package installer

import (
	"archive/zip"
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// wheelOf is a package of one module, with further files.
func wheelOf(t *testing.T, name, version string, needs []string, files map[string]string) []byte {
	t.Helper()
	info := name + "-" + version + ".dist-info/"
	all := map[string]string{
		name + "/__init__.py": "answer = 42\n",
		info + "METADATA":     "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	for _, need := range needs {
		all[info+"METADATA"] += "Requires-Dist: " + need + "\n"
	}
	maps.Copy(all, files)
	var record strings.Builder
	for name := range all {
		record.WriteString(name + ",,\n")
	}
	all[info+"RECORD"] = record.String() + info + "RECORD,,\n"
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		part, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(all[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func wheelName(name, version string) string { return name + "-" + version + "-py3-none-any.whl" }

// wheelFolder holds a package that needs another, one that nobody asks for, and what is no wheel.
func wheelFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string][]byte{
		wheelName("corp", "1.0"):        wheelOf(t, "corp", "1.0", []string{"corp-base[x] (>=1.0) ; python_version > '3'"}, nil),
		wheelName("corp_base", "1.0"):   wheelOf(t, "corp_base", "1.0", nil, nil),
		wheelName("corp_base", "2.0"):   wheelOf(t, "corp_base", "2.0", []string{"Corp.Late", "corp"}, nil),
		wheelName("corp_late", "1.0"):   []byte("no archive"),
		wheelName("unasked", "1.0"):     wheelOf(t, "unasked", "1.0", nil, nil),
		"corp-1.0.tar.gz":               nil,
		"corp-1.0-py3-none-any$(x).whl": nil,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, wheelName("corp", "9")), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestWheelsAreStaged(t *testing.T) {
	g := &fakeGuest{has: missing("uv")}
	p := New(Options{Wheels: wheelFolder(t)})
	if p.Network() != core.NetworkNone || New(Options{}).Network() != core.NetworkFull {
		t.Error("the network is not what is needed")
	}
	if _, err := p.Install(t.Context(), g, core.Ready{}, requirements(t, "Corp"), nil); err != nil {
		t.Fatal(err)
	}
	var staged []string
	for _, path := range slices.Sorted(maps.Keys(g.files)) {
		if piece, is := strings.CutPrefix(path, piecesDir+"/"); is {
			staged = append(staged, piece)
		}
	}
	want := "000001-corp-1.0-py3-none-any.whl 000002-corp_base-1.0-py3-none-any.whl 000003-corp_base-2.0-py3-none-any.whl 000004-corp_late-1.0-py3-none-any.whl"
	if got := strings.Join(staged, " "); got != want {
		t.Errorf("staged %s", got)
	}
	for _, words := range []string{"pip compile", "--require-hashes"} {
		if spec, ran := g.command(words); !ran || !slices.Contains(spec.Argv, "--no-index") || !slices.Contains(spec.Argv, "--find-links") {
			t.Errorf("%s asks an index: %q", words, spec.Argv)
		}
	}
}

// A wheel that is bigger than the workspace comes in pieces, which are moved before more come.
func TestBigWheelsComeInPieces(t *testing.T) {
	folder := t.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), (2*pieceSize+32)/16)
	if err := os.WriteFile(filepath.Join(folder, wheelName("big", "1")), content, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &fakeGuest{}
	if _, err := New(Options{Wheels: folder}).Install(t.Context(), g, core.Ready{}, requirements(t, "big"), nil); err != nil {
		t.Fatal(err)
	}
	var whole strings.Builder
	for _, path := range slices.Sorted(maps.Keys(g.files)) {
		if strings.HasPrefix(path, piecesDir) {
			whole.WriteString(g.files[path])
		}
	}
	moves := 0
	for _, spec := range g.runs {
		if slices.Contains(spec.Argv, gatherProgram) {
			moves++
		}
	}
	if whole.String() != string(content) || moves != 3 {
		t.Errorf("%d bytes in %d moves", whole.Len(), moves)
	}
}

func TestWheelsAreBounded(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, wheelName("big", "1")), make([]byte, 4001), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []Options{{Wheels: folder, MaxSize: 1000}, {Wheels: folder + "/none"}} {
		g := &fakeGuest{}
		_, err := New(options).Install(t.Context(), g, core.Ready{}, requirements(t, "big"), nil)
		if !errors.Is(err, core.ErrDependency) || core.HintOf(err) == "" || len(g.files) != 1 {
			t.Errorf("got %v with %d files", err, len(g.files))
		}
	}
}

func TestRequiredNames(t *testing.T) {
	got := requiredNames("Name: x\r\nRequires-Dist: A.b>=1\nRequires-Dist:c[d] ; extra == 'e'\nRequires-Dist: -r\n\nRequires-Dist: not-me\n")
	if strings.Join(got, " ") != "a-b c " {
		t.Errorf("got %q", got)
	}
}
