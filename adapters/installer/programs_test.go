package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// runProgram runs one of the programs that boxes get, after a beginning of the test's own, with this machine's Python.
func runProgram(t *testing.T, beginning, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command("python3", append([]string{"-I", "-c", beginning + "\n" + program}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestAFolderThatCannotBeRead on Python's path keeps nobody from what is in the others.
func TestAFolderThatCannotBeRead(t *testing.T) {
	has, hides, wheels := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "wheels")
	if err := os.Mkdir(filepath.Join(has, "some_pkg-1.5.dist-info"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A superuser may read all folders, so that this one's system call is made to fail.
	beginning := `import os, sys
sys.path += [` + strconv.Quote(has) + `, ` + strconv.Quote(hides) + `]
def listdir(folder, real=os.listdir):
    if folder == ` + strconv.Quote(hides) + `: raise PermissionError(folder)
    return real(folder)
os.listdir = listdir`
	if said := runProgram(t, beginning, lookProgram, wheels, "some-pkg", "some-pkg"); said != "0 1.5" {
		t.Errorf("it said %q", said)
	}
	if _, err := os.Stat(wheels); err != nil {
		t.Error(err)
	}
}

// TestMeasure counts files once each, and no further than to what is too much.
func TestMeasure(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(one, name), make([]byte, 10), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(one, "a"), filepath.Join(other, "a")); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]string{"100": "30", "30": "30", "15": "20", "0": "10"} {
		if said := runProgram(t, "", measureProgram, limit, one, other, filepath.Join(one, "none")); said != want {
			t.Errorf("at most %s: it said %q", limit, said)
		}
	}
}
