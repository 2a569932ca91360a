//go:build remote && containers_image_openpgp

package podman

import (
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
func fakeMachine(uid int, env map[string]string, files ...string) surroundings {
	return surroundings{
		getenv: func(name string) string { return env[name] },
		glob: func(pattern string) (found []string, err error) {
			for _, name := range files {
				if ok, _ := path.Match(pattern, name); ok {
					found = append(found, name)
				}
			}
			return found, nil
		},
		uid: uid,
	}
}

func TestDiscovery(t *testing.T) {
	named := map[string]string{"CONTAINER_HOST": "unix:///named.sock", "XDG_RUNTIME_DIR": "/run/user/7"}
	for name, c := range map[string]struct {
		settings Settings
		machine  surroundings
		hosts    []string
		fails    string
	}{
		"a user":         {machine: fakeMachine(7, map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}), hosts: []string{"unix:///run/user/7/podman/podman.sock", "unix:///run/podman/podman.sock"}},
		"no session":     {machine: fakeMachine(7, nil), hosts: []string{"unix:///run/user/7/podman/podman.sock", "unix:///run/podman/podman.sock"}},
		"another folder": {machine: fakeMachine(7, map[string]string{"XDG_RUNTIME_DIR": "/x"}), hosts: []string{"unix:///x/podman/podman.sock", "unix:///run/user/7/podman/podman.sock", "unix:///run/podman/podman.sock"}},
		"root":           {machine: fakeMachine(0, nil), hosts: []string{"unix:///run/podman/podman.sock"}},
		"machine on a Mac": {
			machine: fakeMachine(501, map[string]string{"HOME": "/h", "TMPDIR": "/tmp/T/"}, "/tmp/T/podman/podman-machine-default-api.sock", "/tmp/T/other"),
			hosts:   []string{"unix:///run/user/501/podman/podman.sock", "unix:///run/podman/podman.sock", "unix:///tmp/T/podman/podman-machine-default-api.sock"},
		},
		"machine, older": {
			machine: fakeMachine(0, map[string]string{"HOME": "/h"}, "/h/.local/share/containers/podman/machine/qemu/podman.sock"),
			hosts:   []string{"unix:///run/podman/podman.sock", "unix:///h/.local/share/containers/podman/machine/qemu/podman.sock"},
		},
		"settings.host":  {settings: Settings{Host: "tcp://a:1"}, machine: fakeMachine(0, named), hosts: []string{"tcp://a:1"}},
		"a plain path":   {settings: Settings{Host: "/x.sock"}, machine: fakeMachine(0, nil), hosts: []string{"unix:///x.sock"}},
		"CONTAINER_HOST": {machine: fakeMachine(7, named), hosts: []string{"unix:///named.sock"}},
		"http":           {settings: Settings{Host: "http://a:1/"}, machine: fakeMachine(0, nil), hosts: []string{"tcp://a:1"}},
		"ssh":            {settings: Settings{Host: "ssh://core@h:22/x.sock"}, machine: fakeMachine(0, nil), hosts: []string{"ssh://core@h:22/x.sock"}, fails: "ssh is not supported"},
		"no scheme":      {settings: Settings{Host: "a:1"}, machine: fakeMachine(0, nil), hosts: []string{"a:1"}, fails: "an address looks like"},
		"relative":       {settings: Settings{Host: "unix://x.sock"}, machine: fakeMachine(0, nil), hosts: []string{"unix://x.sock"}, fails: "an address looks like"},
		"https":          {settings: Settings{Host: "https://a:1"}, machine: fakeMachine(0, nil), hosts: []string{"https://a:1"}, fails: "an address looks like"},
	} {
		t.Run(name, func(t *testing.T) {
			found := discover(c.settings, c.machine)
			var hosts []string
			for _, e := range found {
				hosts = append(hosts, e.Host)
			}
			if !slices.Equal(hosts, c.hosts) {
				t.Errorf("got %q, want %q", hosts, c.hosts)
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
		"ssh://core@h/x":       "ssh is not supported",
	} {
		_, err := newFinder(Settings{Host: host}, fakeMachine(0, nil)).Find(t.Context())
		if core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if !strings.Contains(core.HintOf(err), "settings.host") {
			t.Errorf("the hint does not name who chose it: %v", err)
		}
	}
}

func TestHints(t *testing.T) {
	place := daemon.Endpoint{Source: "system", Host: "unix:///x"}
	denied := unreachable([]daemon.Attempt{{Endpoint: place, Err: syscall.EACCES}, {Endpoint: place, Err: fs.ErrNotExist}})
	if hint := core.HintOf(denied); !strings.Contains(hint, "systemctl --user start podman.socket") {
		t.Errorf("permission denied: %v", denied)
	}
	absent := unreachable([]daemon.Attempt{{Endpoint: place, Err: fs.ErrNotExist}, {Endpoint: place, Err: fs.ErrNotExist}})
	if hint := core.HintOf(absent); !strings.Contains(hint, "systemctl --user start podman.socket") || !strings.Contains(hint, "backends.podman.settings.host") {
		t.Errorf("not there: %v", absent)
	}
}

func TestSettingsAreStrict(t *testing.T) {
	if _, err := decodeSettings([]byte(`{"hosts":"x"}`)); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), `"hosts"`) {
		t.Errorf("got %v", err)
	}
	if s, err := decodeSettings([]byte(`{"host":"unix:///x","runtime":"runsc"}`)); err != nil || s.Host != "unix:///x" || s.Runtime != "runsc" {
		t.Errorf("got %+v, %v", s, err)
	}
}
