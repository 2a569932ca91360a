package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/boxwright/boxwright/core"
)

// candidate is a place where runsc may be.
type candidate struct {
	source string // who named it, in words that the user knows
	path   string
}

// candidates lists the places to try, in this order: settings.runsc, which is the only one if it
// is set; beside the plugin's own executable; each folder of PATH.
func candidates(s Settings, self, path string) []candidate {
	if s.Runsc != "" {
		return []candidate{{"settings.runsc", s.Runsc}}
	}
	var list []candidate
	if self != "" {
		list = append(list, candidate{"beside the plugin", filepath.Join(filepath.Dir(self), "runsc")})
	}
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			list = append(list, candidate{"PATH", filepath.Join(dir, "runsc")})
		}
	}
	return list
}

// runsc is an executable that is known to work.
type runsc struct {
	path    string
	version string
	changed time.Time // the file's
	gofers  bool      // it can give its file servers networks of their own; else it does so anyway
	canWait bool      // it can be told that a box has fewer processors than it sees when it starts
}

// finder finds runsc at the first call, and anew when the file changes.
type finder struct {
	settings Settings
	self     string
	path     string

	search chan struct{} // holds one token while somebody looks
	now    *runsc        // whoever has the token may change it

	trials chan struct{} // holds one token while somebody tries the platform
	// Whoever has the token may change these.
	works   *runsc    // with the platform
	refused error     // why the platform does not work
	rest    time.Time // when it is tried again
}

func newFinder(s Settings, self, path string) *finder {
	return &finder{settings: s, self: self, path: path, search: make(chan struct{}, 1), trials: make(chan struct{}, 1)}
}

// runsc returns the executable. Only one caller looks for it at a time.
func (f *finder) runsc(ctx context.Context) (*runsc, error) {
	leave, err := enter(ctx, f.search)
	if err != nil {
		return nil, err
	}
	defer leave()
	if f.now != nil {
		info, err := os.Stat(f.now.path) //nolint:gosec // the operator's own executable
		if err == nil && info.ModTime().Equal(f.now.changed) {
			return f.now, nil
		}
		f.now = nil
	}
	return f.look(ctx)
}

// working returns the executable once it is known to work with the platform that the settings name. To see or to
// remove what there is, nobody needs that.
func (f *finder) working(ctx context.Context) (*runsc, error) {
	found, err := f.runsc(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := enter(ctx, f.trials)
	if err != nil {
		return nil, err
	}
	defer leave()
	if f.works == found {
		return found, nil
	}
	if time.Now().Before(f.rest) {
		return nil, f.refused
	}
	if err := tryPlatform(ctx, found.path, f.settings.Platform); err != nil {
		if core.KindOf(err) == core.ErrUnavailable {
			f.refused, f.rest = err, time.Now().Add(platformRest)
		}
		return nil, err
	}
	f.works = found
	return found, nil
}

// enter takes a token's place.
func enter(ctx context.Context, place chan struct{}) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, core.ContextError(ctx)
	}
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, core.ContextError(ctx)
	}
}

func (f *finder) look(ctx context.Context) (*runsc, error) {
	var tried []string
	for _, c := range candidates(f.settings, f.self, f.path) {
		found, err := probe(ctx, c.path)
		if ctx.Err() != nil {
			return nil, core.ContextError(ctx)
		}
		if err == nil {
			f.now = found
			return found, nil
		}
		if c.source != "PATH" || !errors.Is(err, fs.ErrNotExist) {
			tried = append(tried, fmt.Sprintf("%s (%s): %s", c.path, c.source, reason(err)))
		}
	}
	return nil, missing(append(tried, "PATH"), f.settings.Runsc != "")
}

func missing(tried []string, named bool) error {
	if named {
		return core.Errorf(core.ErrUnavailable, "gVisor's runsc cannot be used: %s", tried[0]).
			WithHint("correct backends.gvisor.settings.runsc")
	}
	return core.Errorf(core.ErrUnavailable, "gVisor's runsc was not found; tried %s", strings.Join(tried, "; ")).
		WithHint("get it from https://gvisor.dev/docs/user_guide/install, put it beside Boxwright's executables or into PATH, or set backends.gvisor.settings.runsc")
}

func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	case errors.Is(err, fs.ErrPermission):
		return "may not be executed"
	}
	return err.Error()
}

// needed are options without which runsc is too old: packages of some distributions are from 2022.
func needed() []string { return []string{"overlay2", "host-uds", "directfs", "file-access-mounts"} }

// goferNetwork keeps runsc from leaving a mount of its own in the backend's folder.
const goferNetwork = "gofer-network-namespace"

// noSpinning keeps a box's kernel from waiting actively, which only pays where somebody else can go on meanwhile.
const noSpinning = "systrap-disable-fast-path"

// probeTime bounds the look at one executable.
const probeTime = 10 * time.Second

// probe runs the executable to see what it is.
func probe(ctx context.Context, path string) (*runsc, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	flags, err := output(ctx, path, "flags")
	if err != nil {
		return nil, err
	}
	has := func(flag string) bool { return regexp.MustCompile(`(?m)^\s*--?` + flag + `\b`).MatchString(flags) }
	for _, flag := range needed() {
		if !has(flag) {
			return nil, fmt.Errorf("it is too old: it has no option --%s; a release of 2024 or later is needed", flag)
		}
	}
	version, err := output(ctx, path, "--version")
	if err != nil {
		return nil, err
	}
	if err := mayNest(ctx, path); err != nil {
		return nil, err
	}
	return &runsc{path: path, version: versionOf(version), changed: info.ModTime(), gofers: has(goferNetwork), canWait: has(noSpinning)}, nil
}

// mayNest finds out whether an ordinary user may make user namespaces here, which each box is in:
// some distributions forbid it, in several ways.
func mayNest(ctx context.Context, path string) error {
	if os.Getuid() == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = bareEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	asGuest(cmd.SysProcAttr, os.Getuid(), os.Getgid())
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("it cannot be used, as this user may not make user namespaces (%w); see the settings kernel.unprivileged_userns_clone, user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns", err)
	}
	return nil
}

// output is what a command says, on both streams: runsc has printed its flags on either.
func output(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the operator's own executable
	cmd.Env = bareEnv()
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

// bareEnv is all of the environment that programs of the host's get.
func bareEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// versionOf reads "runsc version release-20240101.0".
func versionOf(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	version := strings.TrimSpace(strings.TrimPrefix(line, "runsc version"))
	if version == "" || version == "VERSION_MISSING" {
		return "unknown"
	}
	return version
}
