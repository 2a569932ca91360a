package docker

import (
	"errors"
	"io/fs"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// fakeMachine is a machine of environment variables and files.
func fakeMachine(env, files map[string]string) surroundings {
	return surroundings{
		getenv: func(name string) string { return env[name] },
		readFile: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		glob: func(pattern string) (found []string, err error) {
			for name := range files {
				if ok, _ := path.Match(pattern, name); ok {
					found = append(found, name)
				}
			}
			return found, nil
		},
	}
}

func TestDiscovery(t *testing.T) {
	home := map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1"}
	with := func(pairs ...string) map[string]string {
		env := map[string]string{"HOME": "/h"}
		for i := 0; i < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
		}
		return env
	}
	files := map[string]string{
		"/h/.docker/config.json":                   `{"currentContext":"desk"}`,
		"/h/.docker/contexts/meta/1/meta.json":     `{"Name":"desk","Endpoints":{"docker":{"Host":"unix:///desk.sock"}}}`,
		"/h/.docker/contexts/meta/2/meta.json":     `{"Name":"far","Endpoints":{"docker":{"Host":"tcp://far:2376"}}}`,
		"/h/.docker/contexts/tls/2/docker/ca.pem":  "x",
		"/h/.docker/contexts/meta/3/meta.json":     `not json`,
		"/other/config.json":                       `{"currentContext":"default"}`,
		"/broken/config.json":                      `{`,
		"/h/.docker/contexts/meta/4/meta.json":     `{"Name":"shell","Endpoints":{"docker":{"Host":"ssh://x"}}}`,
		"/nocontext/config.json":                   `{"currentContext":"gone"}`,
		"/nocontext/contexts/meta/1/meta.json":     `{"Name":"desk"}`,
		"/h/.docker/contexts/tls/1/docker/cert.pe": "",
	}
	usual := []string{
		"unix:///var/run/docker.sock", "unix:///run/user/1/docker.sock", "unix:///h/.docker/run/docker.sock",
		"unix:///h/.docker/desktop/docker.sock", "unix:///h/.colima/default/docker.sock", "unix:///h/.orbstack/run/docker.sock",
	}
	for name, c := range map[string]struct {
		settings Settings
		env      map[string]string
		files    map[string]string
		hosts    []string
		tls      string
		fails    string
	}{
		"nothing":              {env: home, hosts: usual},
		"no home":              {env: map[string]string{}, hosts: usual[:1]},
		"settings.host":        {settings: Settings{Host: "tcp://a:1"}, env: with("DOCKER_HOST", "unix:///b"), files: files, hosts: []string{"tcp://a:1"}},
		"a plain path":         {settings: Settings{Host: "/x.sock"}, env: home, hosts: []string{"unix:///x.sock"}},
		"settings.context":     {settings: Settings{Context: "far"}, env: with("DOCKER_HOST", "unix:///b"), files: files, hosts: []string{"tcp://far:2376"}, tls: "/h/.docker/contexts/tls/2/docker"},
		"context default":      {settings: Settings{Context: "default"}, env: home, files: files, hosts: usual},
		"DOCKER_HOST":          {env: with("DOCKER_HOST", "unix:///b", "DOCKER_CONTEXT", "far"), files: files, hosts: []string{"unix:///b"}},
		"DOCKER_HOST with TLS": {env: with("DOCKER_HOST", "tcp://b:2", "DOCKER_TLS_VERIFY", "1"), hosts: []string{"tcp://b:2"}, tls: "/h/.docker"},
		"DOCKER_CERT_PATH":     {env: with("DOCKER_HOST", "tcp://b:2", "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", "/c"), hosts: []string{"tcp://b:2"}, tls: "/c"},
		"DOCKER_CONTEXT":       {env: with("DOCKER_CONTEXT", "far"), files: files, hosts: []string{"tcp://far:2376"}, tls: "/h/.docker/contexts/tls/2/docker"},
		"current context":      {env: with(), files: files, hosts: []string{"unix:///desk.sock"}},
		"DOCKER_CONFIG":        {env: map[string]string{"DOCKER_CONFIG": "/other"}, files: files, hosts: usual[:1]},
		"broken config":        {env: map[string]string{"DOCKER_CONFIG": "/broken"}, files: files, hosts: usual[:1]},
		"unknown context":      {env: map[string]string{"DOCKER_CONFIG": "/nocontext"}, files: files, hosts: []string{""}, fails: "no such context"},
		"ssh":                  {env: with("DOCKER_CONTEXT", "shell"), files: files, hosts: []string{"ssh://x"}, fails: "ssh is not supported"},
		"http":                 {env: with("DOCKER_HOST", "http://b:2375/"), hosts: []string{"tcp://b:2375"}},
		"https":                {env: with("DOCKER_HOST", "https://b:2376", "DOCKER_TLS_VERIFY", "1"), hosts: []string{"tcp://b:2376"}, tls: "/h/.docker"},
		"https bare":           {settings: Settings{Host: "https://b:2376"}, env: with(), hosts: []string{"tcp://b:2376"}, fails: "https needs certificates"},
		"no scheme":            {env: with("DOCKER_HOST", "b:2375"), hosts: []string{"b:2375"}, fails: "an address looks like"},
	} {
		t.Run(name, func(t *testing.T) {
			found := discover(c.settings, fakeMachine(c.env, c.files))
			var hosts []string
			for _, e := range found {
				hosts = append(hosts, e.Host)
			}
			if !slices.Equal(hosts, c.hosts) {
				t.Errorf("got %q, want %q", hosts, c.hosts)
			}
			if found[0].TLSDir != c.tls {
				t.Errorf("TLS material in %q, want %q", found[0].TLSDir, c.tls)
			}
			if err := found[0].Err; (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got error %v, want %q", err, c.fails)
			}
		})
	}
}

func TestUnreachableListsWhatWasTried(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "dead.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	for host, want := range map[string]string{
		"unix:///nowhere.sock": "unix:///nowhere.sock (settings.host): not there",
		"unix://" + socket:     "nobody listens",
	} {
		_, err := newFinder(Settings{Host: host}, fakeMachine(nil, nil)).Find(t.Context())
		if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if !strings.Contains(core.HintOf(err), "settings.host") {
			t.Errorf("the hint does not name who chose it: %v", err)
		}
	}
}

func TestHints(t *testing.T) {
	denied := unreachable([]daemon.Attempt{{Endpoint: daemon.Endpoint{Source: "system", Host: "unix:///x"}, Err: syscall.EACCES}, {Err: errors.New("x")}})
	if hint := core.HintOf(denied); !strings.Contains(hint, "group docker") || !strings.Contains(hint, "rootless") {
		t.Errorf("permission denied: %v", denied)
	}
	absent := unreachable([]daemon.Attempt{{Endpoint: daemon.Endpoint{Source: "system", Host: "unix:///x"}, Err: fs.ErrNotExist}})
	if hint := core.HintOf(absent); !strings.Contains(hint, "start Docker") || !strings.Contains(hint, "backends.docker.settings.host") {
		t.Errorf("not there: %v", absent)
	}
}

func TestSettingsAreStrict(t *testing.T) {
	if _, err := decodeSettings([]byte(`{"hosts":"x"}`)); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), `"hosts"`) {
		t.Errorf("got %v", err)
	}
	if _, err := decodeSettings([]byte(`{"host":"x","context":"y"}`)); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("got %v", err)
	}
	if s, err := decodeSettings([]byte(`{"host":"unix:///x","runtime":"runsc"}`)); err != nil || s.Host != "unix:///x" || s.Runtime != "runsc" {
		t.Errorf("got %+v, %v", s, err)
	}
}
