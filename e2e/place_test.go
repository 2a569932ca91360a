package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The images that hack/ makes.
const (
	baseImage         = "python:3.11-slim"
	preinstalledImage = "boxwright-test/preinstalled:1" // with six and numpy
	busyboxImage      = "boxwright-test/busybox:1"      // no Python
	emptyImage        = "boxwright-test/empty:1"        // nothing at all
	nodeImage         = "boxwright-test/node:1"         // with Python and Node.js
)

// cpuNotHeld is the warning of an engine that cannot bound the use of processors.
const cpuNotHeld = "the cpu limit does not hold: this engine cannot enforce it"

// place is where the boxes of the tests live. One test process has one: BOXWRIGHT_TEST_BACKEND
// names it.
type place struct {
	name     string         // as in BOXWRIGHT_TEST_BACKEND and in the report
	backend  string         // the server's name for it
	config   map[string]any // what a server needs to use it
	socket   string         // the engine's; "" if it has none
	user     *user.User     // who the server runs as; nil is who runs the tests
	engine   engine
	cleanup  func()   // of what the place made for itself; nil is nothing
	declared []string // warnings that each result has, because the backend declares a weakness
}

// engine is a place as it is seen from outside, without Boxwright.
type engine interface {
	// absence says why the tests cannot use it; "" if they can.
	absence() string
	// boxes lists what there is of an installation, running or not.
	boxes(t *testing.T, instance string) []string
	// running lists the boxes of an installation that run for a purpose.
	running(t *testing.T, instance, purpose string) []string
	// volumes lists those of an installation, by name with their purpose.
	volumes(t *testing.T, instance string) map[string]string
	removeBox(t *testing.T, id string)
	removeVolume(t *testing.T, name string)
	removeImage(t *testing.T, ref string)
}

// here is the place of this process.
var here = sync.OnceValue(func() *place {
	name := os.Getenv("BOXWRIGHT_TEST_BACKEND")
	if name == "" {
		name = "docker"
	}
	make, ok := map[string]func() *place{
		"docker":          dockerPlace,
		"podman":          podmanPlace,
		"podman-rootless": rootlessPodmanPlace,
		"gvisor":          gvisorPlace,
		"gvisor-rootless": rootlessGvisorPlace,
	}[name]
	if !ok {
		return &place{name: name, engine: missing("BOXWRIGHT_TEST_BACKEND names no place: " + name)}
	}
	p := make()
	p.name = name
	return p
})

// missing is an engine that is not there.
type missing string

func (m missing) absence() string                            { return string(m) }
func (missing) boxes(*testing.T, string) []string            { return nil }
func (missing) running(*testing.T, string, string) []string  { return nil }
func (missing) volumes(*testing.T, string) map[string]string { return nil }
func (missing) removeBox(*testing.T, string)                 {}
func (missing) removeVolume(*testing.T, string)              {}
func (missing) removeImage(*testing.T, string)               {}

func dockerPlace() *place {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	return &place{
		backend: "docker",
		config:  map[string]any{"backend": "docker"},
		socket:  host,
		engine:  commandEngine{"docker"},
	}
}

func podmanPlace() *place { return podmanAt(os.Getenv("BOXWRIGHT_PODMAN"), "BOXWRIGHT_PODMAN") }

// rootlessPodmanPlace may have an engine whose limits do not hold: on cgroup v1 they cannot.
func rootlessPodmanPlace() *place {
	p := podmanAt(os.Getenv("BOXWRIGHT_PODMAN_ROOTLESS"), "BOXWRIGHT_PODMAN_ROOTLESS")
	return p.asTestUser().withoutCgroups()
}

func podmanAt(socket, variable string) *place {
	p := &place{
		backend: "podman",
		config: map[string]any{
			"backend":  "podman",
			"backends": map[string]any{"podman": map[string]any{"settings": map[string]any{"host": socket}}},
		},
		socket: socket,
		engine: commandEngine{"podman", "--remote", "--url", socket},
	}
	if socket == "" {
		p.engine = missing(variable + " is not set; hack/podman-up.sh prints it")
	}
	return p
}

// asTestUser makes the servers those of an ordinary user.
func (p *place) asTestUser() *place {
	name := os.Getenv("BOXWRIGHT_TEST_USER")
	found, err := user.Lookup(name)
	if err != nil {
		p.engine = missing(fmt.Sprintf("BOXWRIGHT_TEST_USER: %v; hack/podman-up.sh rootless prints it", err))
		return p
	}
	p.user = found
	return p
}

// withoutCgroups expects an engine that cannot bound the CPU, and says so in each result.
func (p *place) withoutCgroups() *place {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return p // cgroup v2 can be delegated to a user
	}
	p.config["limits"] = map[string]any{"unenforced": "warn"}
	p.declared = []string{cpuNotHeld}
	return p
}

// settings is a server's settings file for this place: text, and what it leaves open of the
// place's own.
func (p *place) settings(t *testing.T, text string) string {
	t.Helper()
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	whole, err := yaml.Marshal(merge(p.config, given))
	if err != nil {
		t.Fatal(err)
	}
	return string(whole)
}

// merge returns both; where both have a value, over's counts.
func merge(under, over map[string]any) map[string]any {
	both := maps.Clone(under)
	for key, value := range over {
		inner, innerOK := both[key].(map[string]any)
		if more, ok := value.(map[string]any); ok && innerOK {
			value = merge(inner, more)
		}
		both[key] = value
	}
	return both
}

// command is a program as the place's user runs it.
func (p *place) command(name string, args ...string) *exec.Cmd {
	if p.user == nil {
		return exec.Command(name, args...)
	}
	as := []string{"--reuid", p.user.Uid, "--regid", p.user.Gid, "--init-groups", "--", name}
	return exec.Command("setpriv", append(as, args...)...)
}

// environment is what a program of the place's user sees: the test's own, without what would
// set up a server, and with empty base folders.
func (p *place) environment(home string) []string {
	env := environment(home)
	if p.user != nil {
		env = append(env, "HOME="+p.user.HomeDir, "USER="+p.user.Username, "XDG_RUNTIME_DIR=/run/user/"+p.user.Uid)
	}
	return env
}

// give hands files of the test to the place's user.
func (p *place) give(t *testing.T, paths ...string) {
	t.Helper()
	if p.user == nil {
		return
	}
	uid, _ := strconv.Atoi(p.user.Uid)
	gid, _ := strconv.Atoi(p.user.Gid)
	for _, path := range paths {
		if err := os.Chown(path, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
}

// folder makes a temporary folder of the place's user.
func (p *place) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p.give(t, dir, filepath.Dir(dir))
	return dir
}

// onlyWhere leaves a test out that is about something that this place does not have.
func onlyWhere(t *testing.T, ok bool, what string) {
	t.Helper()
	if !ok {
		t.Skipf("not for %s: %s", here().name, what)
	}
}

// hostAddresses are those of this machine that are not loopback.
func hostAddresses() []string {
	interfaces, _ := net.Interfaces()
	var all []string
	for _, i := range interfaces {
		all = append(all, addressesOf(i.Name)...)
	}
	return all
}

func addressesOf(name string) []string {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	found, _ := i.Addrs()
	var all []string
	for _, address := range found {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			all = append(all, ip.IP.String())
		}
	}
	return all
}

// readable makes the programs those of a folder that the place's user can read; cleanup removes it.
func (p *place) readable(dir string) (string, func(), error) {
	if p.user == nil {
		return dir, func() {}, nil
	}
	copied, err := os.MkdirTemp("", "boxwright-e2e-")
	if err != nil {
		return "", nil, err
	}
	cleanup := func() { _ = os.RemoveAll(copied) }
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		if err := duplicate(file, filepath.Join(copied, filepath.Base(file))); err != nil {
			cleanup()
			return "", nil, err
		}
	}
	return copied, cleanup, os.Chmod(copied, 0o755)
}

// duplicate makes a file of the same content, without copying where that is possible.
func duplicate(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// at is the settings file of a server whose engine is at another address.
func (p *place) at(host string) string {
	return fmt.Sprintf("backends: {%s: {settings: {host: '%s'}}}\n", p.backend, host)
}

// plugin is the name of the place's plugin.
func (p *place) plugin() string { return "boxwright-backend-" + p.backend }

// isDeclared tells whether a warning is of those that each result of this place has.
func (p *place) isDeclared(warning string) bool { return slices.Contains(p.declared, warning) }

func (p *place) isDocker() bool { return p.name == "docker" }
