// Package place knows the places for boxes that the end-to-end tests and the measurements run in: which backend is
// there, with which settings, and whose its server is. It makes no boxes, and looks for nothing but what hack/ set up.
package place

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Place is where boxes are made.
type Place struct {
	Name     string
	Backend  string         // the server's name for it
	Settings map[string]any // the plugin's
	Socket   string         // the engine's address; "" if it has none
	Command  []string       // the engine's own, with arguments that always come first; without one it is gVisor's
	User     *user.User     // who server and plugin run as; nil is whoever runs this program
}

// Of returns the place of a name of the Makefile's PLACES. Images are those that gVisor is to have, the default first; dir is
// where Furnish puts what it needs.
func Of(name, dir string, images []string) (*Place, error) {
	p := &Place{Name: name}
	switch name {
	case "docker":
		p.Backend, p.Command, p.Socket = "docker", []string{"docker"}, os.Getenv("DOCKER_HOST")
		if p.Socket == "" {
			p.Socket = "unix:///var/run/docker.sock"
		}
	case "podman", "podman-rootless":
		variable := "BOXWRIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if p.Socket = os.Getenv(variable); p.Socket == "" {
			return nil, fmt.Errorf("%s is not set; hack/podman-up.sh prints it", variable)
		}
		p.Backend, p.Settings = "podman", map[string]any{"host": p.Socket}
		p.Command = []string{"podman", "--remote", "--url", p.Socket}
	case "gvisor", "gvisor-rootless":
		archives := map[string]any{}
		for _, image := range images {
			archives[image] = filepath.Join(dir, "images.tar")
		}
		p.Backend, p.Settings = "gvisor", map[string]any{
			"runsc": filepath.Join(dir, "runsc"), "dir": filepath.Join(dir, "state", "gvisor"),
			"images": archives, "default_image": images[0],
		}
	default:
		return nil, fmt.Errorf("%q is no place: docker, podman, podman-rootless, gvisor and gvisor-rootless are", name)
	}
	if !strings.HasSuffix(name, "-rootless") {
		return p, nil
	}
	found, err := user.Lookup(os.Getenv("BOXWRIGHT_TEST_USER"))
	if err != nil {
		return nil, fmt.Errorf("BOXWRIGHT_TEST_USER: %w; hack/podman-up.sh rootless prints it", err)
	}
	p.User = found
	return p, nil
}

// Furnish gives the place's folder what its user needs: the files, by name, and for gVisor runsc and the images of the tests,
// which may lie where that user cannot read them; and a folder "state" of that user's.
func (p *Place) Furnish(dir string, files map[string]string) error {
	if p.Backend == "gvisor" {
		runsc, images := os.Getenv("BOXWRIGHT_RUNSC"), os.Getenv("BOXWRIGHT_TEST_IMAGES")
		if runsc == "" || images == "" {
			return errors.New("BOXWRIGHT_RUNSC and BOXWRIGHT_TEST_IMAGES are not set; hack/runsc.sh and hack/share-images.sh print them")
		}
		for name, file := range map[string]string{"runsc": runsc, "images.tar": images} {
			if err := Duplicate(file, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name, file := range files {
		if err := Duplicate(file, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	state := filepath.Join(dir, "state")
	return errors.Join(os.Chmod(dir, 0o755), os.Mkdir(state, 0o700), p.Give(state)) //nolint:gosec // another user reads it
}

// Duplicate makes an executable file of the same content, without copying where that is possible.
func Duplicate(from, to string) error {
	if info, err := os.Stat(from); err == nil && info.Mode().Perm()&0o004 != 0 && os.Link(from, to) == nil {
		return nil
	}
	content, err := os.ReadFile(from) //nolint:gosec // our own programs
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755) //nolint:gosec // a program, and another user runs it
}

// Give hands files to the place's user.
func (p *Place) Give(paths ...string) error {
	if p.User == nil {
		return nil
	}
	uid, gid := p.ids()
	var all error
	for _, path := range paths {
		all = errors.Join(all, os.Chown(path, uid, gid))
	}
	return all
}

func (p *Place) ids() (uid, gid int) {
	uid, uidErr := strconv.Atoi(p.User.Uid)
	gid, gidErr := strconv.Atoi(p.User.Gid)
	if uidErr != nil || gidErr != nil {
		return -1, -1 // not on this system
	}
	return uid, gid
}

// Program is a program as the place's user runs it.
func (p *Place) Program(name string, args ...string) *exec.Cmd {
	if p.User != nil {
		as := []string{"--reuid", p.User.Uid, "--regid", p.User.Gid, "--init-groups", "--", name}
		name, args = "setpriv", append(as, args...)
	}
	return exec.Command(name, args...) //nolint:gosec // our own programs and the engines'
}

// Environment is this process' own as a program of the place's user sees it: without what would set up a server, and with
// home for base folders.
func (p *Place) Environment(home string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "BOXWRIGHT_") || strings.HasPrefix(name, "SANDBOX_") || name == "LOG_LEVEL"
	})
	env = append(env, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home)
	if p.User != nil {
		env = append(env, "HOME="+p.User.HomeDir, "USER="+p.User.Username, "XDG_RUNTIME_DIR=/run/user/"+p.User.Uid)
	}
	return env
}

// Process says who a plugin runs as that is started without a server.
func (p *Place) Process() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if p.User != nil {
		uid, gid := p.ids()
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // user ids
	}
	return attr
}

// Config is what a server needs to use the place.
func (p *Place) Config() map[string]any {
	config := map[string]any{"backend": p.Backend}
	if p.Settings != nil {
		config["backends"] = map[string]any{p.Backend: map[string]any{"settings": p.Settings}}
	}
	return config
}
