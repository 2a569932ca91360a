package installer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// lock is what is installed, package by package, by name.
type lock []pin

// pin is one package: exactly one version, and the files that may be taken for it.
type pin struct {
	what   string   // "six==1.17.0", or a link
	name   string   //
	hashes []string // "sha256:…"
}

// Bounds of a lock: it comes from a box.
const (
	maxLock    = 4 << 20  // bytes
	maxReport  = 32 << 20 // bytes; pip's holds all that packages say of themselves
	maxPins    = 1000
	hashOption = "--hash="
)

// parseLock reads a list of pins in the form of a requirements file, and lets nothing through that is none.
func parseLock(text string) (lock, error) {
	if len(text) > maxLock {
		return nil, core.Errorf(core.ErrDependency, "the lock of the packages is too long: at most %s are read", core.FormatBytes(maxLock))
	}
	var l lock
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parsePin(line)
		if err != nil {
			return nil, core.Errorf(core.ErrDependency, "the lock of the packages has %q, which %w", shorten(line, 100), err)
		}
		if l = append(l, p); len(l) > maxPins {
			return nil, core.Errorf(core.ErrDependency, "more than %d packages would be needed", maxPins)
		}
	}
	slices.SortFunc(l, func(a, b pin) int { return strings.Compare(a.what, b.what) })
	return l, nil
}

func parsePin(line string) (pin, error) {
	what, options, _ := strings.Cut(line, " "+hashOption)
	list, err := core.RequirementPolicy{Links: true, Builds: true}.Parse([]string{what})
	if err != nil || len(list) != 1 {
		return pin{}, errors.New("cannot be read")
	}
	r := list[0]
	exact := strings.HasPrefix(r.Spec, "==") && !strings.ContainsAny(r.Spec, ",*")
	if exact == (r.URL != "") || r.Marker != "" {
		return pin{}, errors.New("is not one version")
	}
	p := pin{what: r.String(), name: r.Name}
	for word := range strings.FieldsSeq(hashOption + options) {
		hash, is := strings.CutPrefix(word, hashOption)
		if is && isSafeHash(hash) {
			p.hashes = append(p.hashes, hash)
		}
	}
	if len(p.hashes) == 0 && !strings.HasPrefix(r.URL, "git+") {
		return pin{}, errors.New("has no hash")
	}
	return p, nil
}

// isSafeHash reads "sha256:" and hexadecimal digits. An older kind of hash can be had for two files.
func isSafeHash(hash string) bool {
	kind, digits, _ := strings.Cut(hash, ":")
	length := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[kind]
	return length > 0 && len(digits) == length && strings.Trim(digits, "0123456789abcdef") == ""
}

// String is the lock as installers read it.
func (l lock) String() string {
	var text strings.Builder
	for _, p := range l {
		text.WriteString(p.what)
		for _, hash := range p.hashes {
			text.WriteString(" \\\n    " + hashOption + hash)
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// hashed reports whether all packages have hashes: a commit of a repository has none.
func (l lock) hashed() bool {
	return !slices.ContainsFunc(l, func(p pin) bool { return len(p.hashes) == 0 })
}

func (l lock) names() []string {
	names := make([]string, len(l))
	for i, p := range l {
		names[i] = p.name
	}
	return names
}

// readLock reads what uv resolved.
func (j *job) readLock(ctx context.Context) (lock, error) {
	text, err := j.read(ctx, lockFile, maxLock)
	if err != nil {
		return nil, err
	}
	return parseLock(text)
}

// pipReport is what pip says that it installs.
type pipReport struct {
	Install []struct {
		Direct   bool `json:"is_direct"`
		Metadata struct{ Name, Version string }
		Download struct {
			URL     string
			Folder  string `json:"subdirectory"`
			Archive struct {
				Hash   string // "sha256=…"; pip before 23.1 has no more
				Hashes map[string]string
			} `json:"archive_info"`
			VCS struct {
				Commit string `json:"commit_id"`
			} `json:"vcs_info"`
		} `json:"download_info"`
	}
}

// readReport reads what pip installed, as a lock.
func (j *job) readReport(ctx context.Context) (lock, error) {
	text, err := j.read(ctx, reportFile, maxReport)
	if err != nil {
		return nil, err
	}
	var report pipReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, core.Errorf(core.ErrDependency, "pip's report of what it installed cannot be read: %w", err)
	}
	return report.lock()
}

func (r pipReport) lock() (lock, error) {
	var text strings.Builder
	for _, p := range r.Install {
		d := p.Download
		switch {
		case p.Direct && d.VCS.Commit != "":
			fmt.Fprintf(&text, "%s @ git+%s@%s", p.Metadata.Name, d.URL, d.VCS.Commit)
			if d.Folder != "" {
				text.WriteString("#subdirectory=" + d.Folder)
			}
		case p.Direct:
			fmt.Fprintf(&text, "%s @ %s", p.Metadata.Name, d.URL)
		default:
			fmt.Fprintf(&text, "%s==%s", p.Metadata.Name, p.Metadata.Version)
		}
		old, _ := strings.CutPrefix(d.Archive.Hash, "sha256=")
		if hash := cmp.Or(d.Archive.Hashes["sha256"], old); hash != "" {
			text.WriteString(" " + hashOption + "sha256:" + hash)
		}
		text.WriteByte('\n')
	}
	return parseLock(text.String())
}

// read reads a file that a package manager wrote.
func (j *job) read(ctx context.Context, file string, limit int64) (string, error) {
	var text strings.Builder
	_, err := j.guest.ReadFile(ctx, file, &text, limit)
	if errors.Is(err, core.ErrNotFound) || errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrExhausted) {
		return "", core.Errorf(core.ErrDependency, "what would be installed cannot be read: %w", err)
	}
	return text.String(), err
}
