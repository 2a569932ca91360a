// Package agentfile finds the agent's executable for an image, and packs it for an engine that
// takes files as an archive. It knows no engine: how the file gets into a box is the backend's
// business.
package agentfile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// Mark is the file that an archive writes after the agent: a volume that has it has all of the agent.
const Mark = ".complete"

// Files are the host's agent executables.
type Files struct {
	paths map[string]string // by GOARCH

	mu   sync.Mutex
	read map[string]File
}

// File is one executable.
type File struct {
	Path string // on this machine
	Name string // of a volume that holds this very file: boxwright-agent-HASH-ARCH
	Size int64  // bytes
}

// New takes the paths that the host gave, by GOARCH: sdk.Config.Agents.
func New(paths map[string]string) *Files {
	return &Files{paths: maps.Clone(paths), read: map[string]File{}}
}

// Of returns the agent for an image's architecture, as in GOARCH. It reads each file once. An
// architecture without an agent is core.ErrUnsupported; a file that cannot be read is
// core.ErrUnavailable.
func (f *Files) Of(image, arch string) (File, error) {
	file, ok := f.paths[arch]
	if !ok {
		have := strings.Join(slices.Sorted(maps.Keys(f.paths)), ", ")
		return File{}, core.Errorf(core.ErrUnsupported, "image %s is for linux/%s, and Boxwright has its agent for %s only", image, arch, have).
			WithHint("use an image for one of these, or install the agent for %s", arch)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.read[arch]; ok {
		return known, nil
	}
	sum, size, err := digest(file)
	if err != nil {
		return File{}, core.Errorf(core.ErrUnavailable, "the agent for %s cannot be read: %w", arch, err).
			WithHint("install Boxwright again, with its agents")
	}
	f.read[arch] = File{Path: file, Name: fmt.Sprintf("boxwright-agent-%s-%s", sum[:16], arch), Size: size}
	return f.read[arch], nil
}

func digest(path string) (sum string, size int64, err error) {
	content, err := os.Open(path) //nolint:gosec // the host names it
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = content.Close() }() // it was only read
	hash := sha256.New()
	size, err = io.Copy(hash, content)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// IsInFlux recognises, by a runtime's words, a box that could not start because its agent was being
// written at that moment: several servers may fill one volume. It will start in a moment.
func IsInFlux(err error) bool {
	if err == nil || !strings.Contains(err.Error(), core.GuestAgent) {
		return false
	}
	return slices.ContainsFunc([]string{"permission denied", "text file busy", "no such file or directory"}, func(words string) bool {
		return strings.Contains(err.Error(), words)
	})
}

// Archive returns a tar archive of the agent, named as in core.GuestBin, and then Mark.
func (f File) Archive() (io.Reader, error) {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, core.Errorf(core.ErrUnavailable, "the agent cannot be read: %w", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, file := range []struct {
		name    string
		content []byte
	}{{path.Base(core.GuestAgent), content}, {Mark, nil}} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o555, Size: int64(len(file.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.content); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}
