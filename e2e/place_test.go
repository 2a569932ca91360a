package e2e

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/boxwright/boxwright/hack/place"
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

// testPlace is where the boxes of the tests live. One test process has one: BOXWRIGHT_TEST_BACKEND names it.
type testPlace struct {
	*place.Place
	config   map[string]any // what a server needs to use it
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
	// removeVolume is an error while a box uses it, where the engine minds that.
	removeVolume(name string) error
	removeImage(t *testing.T, ref string)
}

// here is the place of this process.
var here = sync.OnceValue(func() *testPlace {
	name := cmp.Or(os.Getenv("BOXWRIGHT_TEST_BACKEND"), "docker")
	p, err := newPlace(name)
	if err != nil {
		p = &testPlace{Place: &place.Place{Name: name, Backend: strings.TrimSuffix(name, "-rootless")}, engine: missing(err.Error())}
	}
	return p
})

// newPlace gives gVisor's place a folder of its own, which goes with cleanup.
func newPlace(name string) (*testPlace, error) {
	dir, err := os.MkdirTemp("", "boxwright-e2e-place-")
	if err != nil {
		return nil, err
	}
	cleanup := func() { _ = os.RemoveAll(dir) }
	known, err := place.Of(name, dir, []string{baseImage, preinstalledImage, busyboxImage, emptyImage, nodeImage})
	if err == nil {
		err = known.Furnish(dir, nil)
	}
	if err != nil {
		cleanup()
		return nil, err
	}
	p := &testPlace{Place: known, config: known.Config(), cleanup: cleanup, engine: commandEngine(known.Command)}
	if known.Backend == "gvisor" {
		p.engine = gvisorEngine{filepath.Join(dir, "state", "gvisor")}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && known.User != nil { // version 2 can be delegated to a user
		p.config["limits"] = map[string]any{"unenforced": "warn"}
		p.declared = []string{cpuNotHeld}
	}
	return p, nil
}

// missing is an engine that is not there.
type missing string

func (m missing) absence() string                            { return string(m) }
func (missing) boxes(*testing.T, string) []string            { return nil }
func (missing) running(*testing.T, string, string) []string  { return nil }
func (missing) volumes(*testing.T, string) map[string]string { return nil }
func (missing) removeBox(*testing.T, string)                 {}
func (missing) removeVolume(string) error                    { return nil }
func (missing) removeImage(*testing.T, string)               {}

// settings is a server's settings file for this place: text, and what it leaves open of the
// place's own.
func (p *testPlace) settings(t *testing.T, text string) string {
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

// give hands files of the test to the place's user.
func (p *testPlace) give(t *testing.T, paths ...string) {
	t.Helper()
	if err := p.Give(paths...); err != nil {
		t.Fatal(err)
	}
}

// folder makes a temporary folder of the place's user.
func (p *testPlace) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p.give(t, dir, filepath.Dir(dir))
	return dir
}

// onlyWhere leaves a test out that is about something that this place does not have.
func onlyWhere(t *testing.T, ok bool, what string) {
	t.Helper()
	if !ok {
		t.Skipf("not for %s: %s", here().Name, what)
	}
}

// onePlace leaves a test to one of the places that are tested together: what it is about is the same code wherever
// boxes live.
func onePlace(t *testing.T) {
	t.Helper()
	at := theOnePlace(t)
	onlyWhere(t, at == here().Name, "it is the same wherever boxes live, and runs with "+at)
}

// theOnePlace deals tests out by name, to root's places if there are any, as the others take longer.
func theOnePlace(t *testing.T) string {
	places := slices.DeleteFunc(strings.Fields(os.Getenv("BOXWRIGHT_TEST_PLACES")), func(name string) bool {
		return strings.HasSuffix(name, "-rootless")
	})
	if len(places) == 0 {
		return here().Name // nothing else is tested
	}
	return places[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(places))]
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
func (p *testPlace) readable(dir string) (string, func(), error) {
	if p.User == nil {
		return dir, func() {}, nil
	}
	copied, err := os.MkdirTemp("", "boxwright-e2e-")
	if err != nil {
		return "", nil, err
	}
	cleanup := func() { _ = os.RemoveAll(copied) }
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		if err := place.Duplicate(file, filepath.Join(copied, filepath.Base(file))); err != nil {
			cleanup()
			return "", nil, err
		}
	}
	return copied, cleanup, os.Chmod(copied, 0o755)
}

// at is the settings file of a server whose engine is at another address.
func (p *testPlace) at(host string) string {
	return fmt.Sprintf("backends: {%s: {settings: {host: '%s'}}}\n", p.Backend, host)
}

// plugin is the name of the place's plugin.
func (p *testPlace) plugin() string { return "boxwright-backend-" + p.Backend }

// isDeclared tells whether a warning is of those that each result of this place has.
func (p *testPlace) isDeclared(warning string) bool { return slices.Contains(p.declared, warning) }

func (p *testPlace) isDocker() bool { return p.Name == "docker" }
