package main

import (
	"encoding/json"
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

// place is where boxes are made, and the bare engine there.
type place struct {
	name     string
	backend  string
	settings map[string]any // the plugin's
	user     *user.User     // who server and plugin run as; nil is who runs the bench
	bare     []string       // the engine's own command that runs hello once, from nothing to nothing
	dir      string         // programs and state, which the user can read
}

// placeOf knows the places by the names that "make bench" gives. state is a folder of the bench's.
func placeOf(name, state string) (*place, error) {
	p := &place{name: name, dir: filepath.Join(state, name)}
	hello := []string{"python3", "-c", hello}
	once := append([]string{"run", "--rm", "--network", "none", image}, hello...)
	switch name {
	case "docker":
		p.backend, p.bare = "docker", append([]string{"docker"}, once...)
	case "podman", "podman-rootless":
		variable := "BOXWRIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		host := os.Getenv(variable)
		if host == "" {
			return nil, fmt.Errorf("%s is not set; hack/podman-up.sh prints it", variable)
		}
		p.backend, p.settings = "podman", map[string]any{"host": host}
		p.bare = append([]string{"podman", "--remote", "--url", host}, once...)
	case "gvisor", "gvisor-rootless":
		p.backend, p.settings = "gvisor", map[string]any{
			"runsc": filepath.Join(p.dir, "runsc"), "dir": filepath.Join(p.dir, "state", "gvisor"),
			"images": map[string]string{image: filepath.Join(p.dir, "images.tar")},
		}
		p.bare = []string{filepath.Join(p.dir, "runsc"), "--network=none"}
		if name == "gvisor-rootless" {
			p.bare = append(p.bare, "--rootless")
		}
		p.bare = append(append(p.bare, "do"), hello...)
	default:
		return nil, fmt.Errorf("%q is no place that this bench knows", name)
	}
	if strings.HasSuffix(name, "-rootless") {
		found, err := user.Lookup(os.Getenv("BOXWRIGHT_TEST_USER"))
		if err != nil {
			return nil, fmt.Errorf("BOXWRIGHT_TEST_USER: %w; hack/podman-up.sh rootless prints it", err)
		}
		p.user = found
	}
	return p, p.furnish()
}

// furnish gives the place programs and folders that its user can read.
func (p *place) furnish() error {
	for _, dir := range []string{p.dir, filepath.Join(p.dir, "state")} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // another user reads it
			return err
		}
	}
	files, _ := filepath.Glob(filepath.Join("bin", "*"))
	names := map[string]string{}
	for _, file := range files {
		names[filepath.Base(file)] = file
	}
	if p.backend == "gvisor" {
		names["runsc"], names["images.tar"] = os.Getenv("BOXWRIGHT_RUNSC"), os.Getenv("BOXWRIGHT_TEST_IMAGES")
	}
	for name, file := range names {
		if err := copyProgram(file, filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	config, err := json.Marshal(p.config()) // JSON is YAML too
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.configFile(), config, 0o644); err != nil { //nolint:gosec // another user reads it
		return err
	}
	return p.give(filepath.Join(p.dir, "state"))
}

func copyProgram(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // our own programs
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755) //nolint:gosec // a program, and another user runs it
}

func (p *place) give(path string) error {
	if p.user == nil {
		return nil
	}
	uid, _ := strconv.Atoi(p.user.Uid)
	gid, _ := strconv.Atoi(p.user.Gid)
	return os.Chown(path, uid, gid)
}

func (p *place) configFile() string { return filepath.Join(p.dir, "boxwright.yaml") }

func (p *place) config() map[string]any {
	return map[string]any{
		"backend":  p.backend,
		"backends": map[string]any{p.backend: map[string]any{"settings": p.settings}},
		"limits":   map[string]any{"unenforced": "warn"},
		"images":   map[string]any{"default": image},
		"storage":  map[string]any{"dir": filepath.Join(p.dir, "state")},
		"log":      map[string]any{"level": "warn"},
	}
}

// command is a program as the place's user runs it.
func (p *place) command(name string, args ...string) *exec.Cmd {
	if p.user != nil {
		as := []string{"--reuid", p.user.Uid, "--regid", p.user.Gid, "--init-groups", "--", name}
		name, args = "setpriv", append(as, args...)
	}
	cmd := exec.Command(name, args...) //nolint:gosec // our own programs and the engines'
	cmd.Env, cmd.Dir = p.environment(), p.dir
	return cmd
}

// environment is without the variables of the tests, which a server takes for misspelt settings.
func (p *place) environment() []string {
	home := filepath.Join(p.dir, "state")
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "BOXWRIGHT_") })
	env = append(env, "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home)
	if p.user != nil {
		env = append(env, "HOME="+p.user.HomeDir, "USER="+p.user.Username, "XDG_RUNTIME_DIR=/run/user/"+p.user.Uid)
	}
	return env
}

// process says who the plugin runs as.
func (p *place) process() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if p.user != nil {
		uid, _ := strconv.ParseUint(p.user.Uid, 10, 32)
		gid, _ := strconv.ParseUint(p.user.Gid, 10, 32)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return attr
}
