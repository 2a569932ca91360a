package agentfile

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := New(map[string]string{"amd64": path, "arm64": "/nowhere/agent"})
	got, err := files.Of("x", "amd64")
	// The hash is that of the text "agent".
	if err != nil || got != (File{Path: path, Name: "boxwright-agent-d4f0bc5a29de06b5-amd64", Size: 5}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := files.Of("x", "arm64"); core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
		t.Errorf("a missing file: %v", err)
	}
	_, err = files.Of("some/image", "s390x")
	if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), "some/image is for linux/s390x") || !strings.Contains(err.Error(), "amd64, arm64") {
		t.Errorf("a foreign architecture: %v", err)
	}
}

func TestIsInFlux(t *testing.T) {
	for text, want := range map[string]bool{
		`runc create failed: exec: "/opt/boxwright/bin/boxwright-agent": permission denied: OCI permission denied`: true,
		`exec: "/opt/boxwright/bin/boxwright-agent": text file busy`:                                               true,
		`exec: "/opt/boxwright/bin/boxwright-agent": stat …: no such file or directory`:                            true,
		`exec: "/opt/boxwright/bin/boxwright-agent": exec format error`:                                            false,
		`exec: "/bin/sh": permission denied`:                                                                       false,
	} {
		if got := IsInFlux(errors.New(text)); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if IsInFlux(nil) {
		t.Error("no error is one")
	}
}

func TestArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := File{Path: path}.Archive()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		got = append(got, header.Name+"="+string(content))
		if header.Mode != 0o555 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
	}
	if strings.Join(got, " ") != "boxwright-agent=agent .complete=" {
		t.Errorf("got %q", got)
	}
}
