package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// surroundings is what discovery reads of the machine; tests give their own.
type surroundings struct {
	getenv   func(string) string
	readFile func(string) ([]byte, error)
	glob     func(string) ([]string, error)
}

func machine() surroundings {
	return surroundings{getenv: os.Getenv, readFile: os.ReadFile, glob: filepath.Glob}
}

// discover lists the endpoints to try, best first:
//
//  1. settings.host, then settings.context: what the operator told Boxwright
//  2. DOCKER_HOST, then DOCKER_CONTEXT, then the docker command's current context
//  3. the system's socket, rootless Docker's, Docker Desktop's, Colima's, OrbStack's
//
// One that somebody named is the only one: if it fails, no other engine is used in its place.
func discover(s Settings, m surroundings) []daemon.Endpoint {
	switch {
	case s.Host != "":
		return []daemon.Endpoint{m.named("settings.host", s.Host)}
	case s.Context != "" && s.Context != defaultContext:
		return []daemon.Endpoint{m.context("settings.context", s.Context)}
	case s.Context == "" && m.getenv("DOCKER_HOST") != "":
		return []daemon.Endpoint{m.named("DOCKER_HOST", m.getenv("DOCKER_HOST"))}
	case s.Context == "":
		source, name := m.currentContext()
		if name != "" && name != defaultContext {
			return []daemon.Endpoint{m.context(source, name)}
		}
	}
	return m.usual()
}

const defaultContext = "default"

func (m surroundings) named(source, host string) daemon.Endpoint {
	e := daemon.Endpoint{Source: source, Host: host, Explicit: true}
	if strings.HasPrefix(host, "/") {
		e.Host = "unix://" + host
	}
	secure := strings.HasPrefix(host, "tcp://") || strings.HasPrefix(host, "https://")
	if m.getenv("DOCKER_TLS_VERIFY") != "" && secure {
		e.TLSDir = m.getenv("DOCKER_CERT_PATH")
		if e.TLSDir == "" {
			e.TLSDir = m.configDir()
		}
	}
	return checked(e)
}

// checked refuses the schemes that need the docker command's help. The client opens streams to
// an engine's tcp, not to its http, which is the same.
func checked(e daemon.Endpoint) daemon.Endpoint {
	scheme, address, _ := strings.Cut(e.Host, "://")
	switch scheme {
	case "unix", "tcp", "npipe":
	case "http":
		e.Host = "tcp://" + strings.TrimSuffix(address, "/")
	case "https":
		e.Host = "tcp://" + strings.TrimSuffix(address, "/")
		if e.TLSDir == "" {
			e.Err = fmt.Errorf("https needs certificates: set DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, or name a context that has them")
		}
	case "ssh":
		e.Err = fmt.Errorf("ssh is not supported: forward the engine's socket with \"ssh -L\" and name that")
	default:
		e.Err = fmt.Errorf("an address looks like unix:///var/run/docker.sock or tcp://host:2376")
	}
	return e
}

func (m surroundings) configDir() string {
	if dir := m.getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := m.getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

func (m surroundings) currentContext() (source, name string) {
	if name := m.getenv("DOCKER_CONTEXT"); name != "" {
		return "DOCKER_CONTEXT", name
	}
	dir := m.configDir()
	if dir == "" {
		return "", ""
	}
	file := filepath.Join(dir, "config.json")
	raw, err := m.readFile(file)
	if err != nil {
		return "", ""
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if json.Unmarshal(raw, &config) != nil {
		return "", "" // the docker command complains about it; the usual sockets may still do
	}
	return file, config.CurrentContext
}

// contextMeta is what the docker command stores about a context.
type contextMeta struct {
	Name      string
	Endpoints map[string]struct{ Host string }
}

func (m surroundings) context(source, name string) daemon.Endpoint {
	e := daemon.Endpoint{Source: fmt.Sprintf("context %q of %s", name, source), Explicit: true}
	metas, err := m.glob(filepath.Join(m.configDir(), "contexts", "meta", "*", "meta.json"))
	if err != nil {
		e.Err = err
		return e
	}
	for _, file := range metas {
		raw, err := m.readFile(file)
		var meta contextMeta
		if err != nil || json.Unmarshal(raw, &meta) != nil || meta.Name != name {
			continue
		}
		e.Host = meta.Endpoints["docker"].Host
		id := filepath.Base(filepath.Dir(file))
		tlsDir := filepath.Join(m.configDir(), "contexts", "tls", id, "docker")
		if _, err := m.readFile(filepath.Join(tlsDir, "ca.pem")); err == nil {
			e.TLSDir = tlsDir
		}
		return checked(e)
	}
	e.Err = fmt.Errorf("there is no such context; \"docker context ls\" lists them")
	return e
}

func (m surroundings) usual() []daemon.Endpoint {
	list := []daemon.Endpoint{{Source: "system", Host: "unix:///var/run/docker.sock"}}
	add := func(source, base string, path ...string) {
		if base != "" {
			list = append(list, daemon.Endpoint{Source: source, Host: "unix://" + filepath.Join(append([]string{base}, path...)...)})
		}
	}
	home := m.getenv("HOME")
	add("rootless", m.getenv("XDG_RUNTIME_DIR"), "docker.sock")
	add("Docker Desktop", home, ".docker", "run", "docker.sock")
	add("Docker Desktop", home, ".docker", "desktop", "docker.sock")
	add("Colima", home, ".colima", "default", "docker.sock")
	add("OrbStack", home, ".orbstack", "run", "docker.sock")
	return list
}
