package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// hostRules changes when the root file system that is made of the machine's programs does.
const hostRules = "host 2"

// hostPython is the machine's own interpreter.
type hostPython struct {
	path    string
	version string
}

// hostImage makes the image "host" ready: a root folder with a made-up /etc, in which the
// machine's programs are mounted. Its digest changes when they may have changed.
func (b *Backend) hostImage(ctx context.Context) (core.Image, error) {
	python, err := b.findPython(ctx)
	if err != nil {
		return core.Image{}, err
	}
	hex := b.hostDigest(python)
	image := core.Image{Ref: core.ImageHost, Digest: "sha256:" + hex, Platform: "linux/" + platform().Architecture}
	if _, err := b.readImage(core.ImageHost, image.Digest); err == nil {
		return image, nil
	}
	return image, b.makeHostRoot(ctx, hex, python)
}

// findPython looks where the machine's own packages put it. What is in PATH may be in somebody's
// home folder, which no box sees.
func (b *Backend) findPython(ctx context.Context) (hostPython, error) {
	var why []string
	for _, dir := range []string{"usr/bin", "usr/local/bin"} {
		path := filepath.Join(b.machine.system, dir, "python3")
		if _, err := os.Stat(path); err != nil {
			why = append(why, path+" is not there")
			continue
		}
		version, err := b.pythonVersion(ctx, path)
		switch {
		case ctx.Err() != nil:
			return hostPython{}, core.ContextError(ctx)
		case err != nil:
			why = append(why, path+" does not run")
		case !isRecent(version):
			why = append(why, path+" is older than 3.8")
		default:
			return hostPython{path: path, version: strings.TrimSpace(version)}, nil
		}
	}
	return hostPython{}, core.Errorf(core.ErrNotFound, "this machine has no Python of its own for the image host: %s", strings.Join(why, ", ")).
		WithHint("install the package python3, or use another image")
}

// pythonVersion asks the interpreter, once for each state of its file.
func (b *Backend) pythonVersion(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	key := fmt.Sprint(path, info.Size(), info.ModTime())
	if known, ok := b.pythons.Load(key); ok {
		version, _ := known.(string) // nothing else is stored
		return version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	version, err := output(ctx, path, "-I", "-S", "-c", "import sys; print(*sys.version_info[:3], sys.version)")
	if err == nil {
		b.pythons.Store(key, version)
	}
	return version, err
}

// isRecent reads "3 11 2 …".
func isRecent(version string) bool {
	var major, minor int
	_, err := fmt.Sscan(version, &major, &minor)
	return err == nil && major == 3 && minor >= 8
}

// hostDigest tells one state of the machine's programs from another, as far as packages that were
// installed for it care.
func (b *Backend) hostDigest(python hostPython) string {
	parts := []string{hostRules, python.path, python.version, platform().String()}
	release, _ := os.ReadFile(filepath.Join(b.machine.system, "etc/os-release")) // not every system has one
	parts = append(parts, string(release))
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/rpm/rpmdb.sqlite", "lib/apk/db/installed", "var/lib/pacman/local", "etc/ld.so.cache"} {
		if info, err := os.Stat(filepath.Join(b.machine.system, file)); err == nil {
			parts = append(parts, file, info.ModTime().UTC().Format(time.RFC3339Nano), strconv.FormatInt(info.Size(), 10))
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// makeHostRoot makes the folder, whole or not at all.
func (b *Backend) makeHostRoot(ctx context.Context, hex string, python hostPython) error {
	temp, err := b.newScratch(ctx)
	if err != nil {
		return err
	}
	defer b.release(temp)
	root, err := newRoot(temp.dir)
	if err != nil {
		return err
	}
	rec := imageRecord{Platform: "linux/" + platform().Architecture, Env: []string{"LANG=C.UTF-8"}}
	if rec.Binds, err = b.hostBinds(root); err != nil {
		return err
	}
	rec.Masks = hostMasks(b.machine.system, python)
	if err := b.hostEtc(filepath.Join(root, "etc")); err != nil {
		return err
	}
	if err := mountPoints(root); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(madeImage(temp.dir), imageFile), rec); err != nil {
		return err
	}
	return b.keep(temp.dir, hex)
}

// hostBinds makes the links that the machine has at its root, and the folders that are mounted.
func (b *Backend) hostBinds(root string) (binds []string, err error) {
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		from, to := filepath.Join(b.machine.system, name), filepath.Join(root, name)
		info, err := os.Lstat(from)
		switch {
		case err != nil:
			continue
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err == nil {
				err = os.Symlink(target, to)
			}
			if err != nil {
				return nil, err
			}
		case info.IsDir():
			if err := os.Mkdir(to, 0o755); err != nil { //nolint:gosec // the folders above it are private
				return nil, err
			}
			binds = append(binds, from)
		}
	}
	return binds, nil
}

// hostMasks are folders of /usr that are not the system's, but of whoever runs this machine.
// /usr/local stays visible only if the interpreter is there.
func hostMasks(system string, python hostPython) []string {
	masks := []string{"/usr/src"}
	if strings.Contains(python.path, "/usr/local/") {
		masks = append(masks, "/usr/local/etc", "/usr/local/src")
	} else {
		masks = append(masks, "/usr/local")
	}
	var there []string
	for _, dir := range masks {
		if info, err := os.Lstat(filepath.Join(system, dir)); err == nil && info.IsDir() {
			there = append(there, dir)
		}
	}
	return there
}

// hostEtc makes up what programs look for in /etc. Of the machine's own it has only what is the
// same on all machines with these packages.
func (b *Backend) hostEtc(etc string) error {
	for _, dir := range []string{"ssl/certs", "fonts"} {
		if err := os.MkdirAll(filepath.Join(etc, dir), 0o755); err != nil { //nolint:gosec // the folders above it are private
			return err
		}
	}
	for name, content := range map[string]string{
		"passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nbox:x:1000:1000:box:" + core.GuestHome + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"hosts":         "127.0.0.1 localhost box\n::1 localhost\n",
		"hostname":      "box\n",
		"fonts/fonts.conf": `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">` +
			`<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/.fontconfig</cachedir></fontconfig>` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil { //nolint:gosec // boxes read it
			return err
		}
	}
	for _, name := range []string{"ld.so.cache", "localtime", "mime.types", "ssl/certs/ca-certificates.crt"} {
		content, err := os.ReadFile(filepath.Join(b.machine.system, "etc", name)) //nolint:gosec // one of the names above
		if err != nil {
			continue // not every system has it
		}
		if err := os.WriteFile(filepath.Join(etc, name), content, 0o644); err != nil { //nolint:gosec // boxes read it
			return err
		}
	}
	return b.hostAlternatives(filepath.Join(etc, "alternatives"))
}

// hostAlternatives copies the links that lead from one program of /usr to another.
func (b *Backend) hostAlternatives(to string) error {
	from := filepath.Join(b.machine.system, "etc/alternatives")
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil // only some systems have them
	}
	if err := os.Mkdir(to, 0o755); err != nil { //nolint:gosec // the folders above it are private
		return err
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(from, entry.Name()))
		if err != nil || !strings.HasPrefix(filepath.Clean(target), "/usr/") {
			continue
		}
		if err := os.Symlink(target, filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
