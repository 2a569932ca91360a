//go:build remote && containers_image_openpgp

package podman

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// surroundings is what discovery reads of the machine; tests give their own.
type surroundings struct {
	getenv func(string) string
	glob   func(string) ([]string, error)
	uid    int
}

func machine() surroundings {
	return surroundings{getenv: os.Getenv, glob: filepath.Glob, uid: os.Getuid()}
}

// discover lists the endpoints to try, best first:
//
//  1. settings.host: what the operator told Boxwright
//  2. CONTAINER_HOST
//  3. the user's own service, the system's, those of "podman machine"
//
// One that somebody named is the only one: if it fails, no other engine is used in its place.
func discover(s Settings, m surroundings) []daemon.Endpoint {
	switch {
	case s.Host != "":
		return []daemon.Endpoint{named("settings.host", s.Host)}
	case m.getenv("CONTAINER_HOST") != "":
		return []daemon.Endpoint{named("CONTAINER_HOST", m.getenv("CONTAINER_HOST"))}
	}
	return m.usual()
}

func named(source, host string) daemon.Endpoint {
	e := daemon.Endpoint{Source: source, Host: host, Explicit: true}
	if strings.HasPrefix(host, "/") {
		e.Host = "unix://" + host
	}
	scheme, address, _ := strings.Cut(e.Host, "://")
	switch {
	case scheme == "unix" && strings.HasPrefix(address, "/"), scheme == "tcp" && address != "":
	case scheme == "http":
		e.Host = "tcp://" + strings.TrimSuffix(address, "/")
	case scheme == "ssh":
		e.Err = errors.New(`ssh is not supported: forward the service's socket with "ssh -L" and name that`)
	default:
		e.Err = errors.New("an address looks like unix:///run/podman/podman.sock or tcp://host:port")
	}
	return e
}

// usual lists the sockets of services that nobody named. The system's socket comes first for
// root, whose own it is.
func (m surroundings) usual() []daemon.Endpoint {
	var list []daemon.Endpoint
	add := func(source, path string) {
		e := daemon.Endpoint{Source: source, Host: "unix://" + path}
		for _, known := range list {
			if known.Host == e.Host {
				return
			}
		}
		list = append(list, e)
	}
	if dir := m.getenv("XDG_RUNTIME_DIR"); dir != "" {
		add("user", filepath.Join(dir, "podman", "podman.sock"))
	}
	if m.uid > 0 {
		add("user", fmt.Sprintf("/run/user/%d/podman/podman.sock", m.uid))
	}
	add("system", "/run/podman/podman.sock")
	for _, pattern := range m.machines() {
		sockets, _ := m.glob(pattern) // the pattern is well-formed
		for _, socket := range sockets {
			add("podman machine", socket)
		}
	}
	return list
}

// machines are the places where "podman machine" puts the sockets of its virtual machines.
func (m surroundings) machines() []string {
	var patterns []string
	for _, dir := range []string{m.getenv("TMPDIR"), m.getenv("XDG_RUNTIME_DIR")} {
		if dir != "" {
			patterns = append(patterns, filepath.Join(dir, "podman", "*-api.sock"))
		}
	}
	if home := m.getenv("HOME"); home != "" {
		data := filepath.Join(home, ".local", "share", "containers", "podman", "machine")
		patterns = append(patterns, filepath.Join(data, "podman.sock"), filepath.Join(data, "*", "podman.sock"))
	}
	return patterns
}

// unreachable says what was tried, and what to do.
func unreachable(tried []daemon.Attempt) error {
	err := core.Errorf(core.ErrUnavailable, "no Podman service answers; tried %s", daemon.Tried(tried))
	switch {
	case len(tried) == 1 && tried[0].Endpoint.Explicit:
		return err.WithHint("start that service, or correct %s", tried[0].Endpoint.Source)
	case daemon.Denied(tried):
		return err.WithHint("this user may not use that socket: start the user's own service with \"systemctl --user start podman.socket\"")
	}
	return err.WithHint("start Podman's service (systemctl --user start podman.socket, or podman system service --time 0), or set CONTAINER_HOST or backends.podman.settings.host")
}
