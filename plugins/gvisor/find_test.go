package gvisor

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

const goodFlags = "  -overlay2 value\n  -host-uds value\n  -directfs\n  -file-access-mounts value\n"

// fakeRunsc is a program that says what runsc says.
func fakeRunsc(t *testing.T, dir, flags, version string) string {
	t.Helper()
	path := filepath.Join(dir, "runsc")
	script := "#!/bin/sh\nif [ \"$1\" = flags ]; then printf '%b' '" + strings.ReplaceAll(flags, "\n", `\n`) + "'; else echo 'runsc version " + version + "'; fi\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhereRunscIsFound: what the settings name is the only one; beside the plugin comes before PATH.
func TestWhereRunscIsFound(t *testing.T) {
	beside, first, second, named := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for dir, version := range map[string]string{beside: "beside", second: "second", named: "named"} {
		fakeRunsc(t, dir, goodFlags, version)
	}
	path := first + ":relative:" + second
	for want, f := range map[string]*finder{
		"named":  newFinder(Settings{Runsc: filepath.Join(named, "runsc")}, filepath.Join(beside, "plugin"), path),
		"beside": newFinder(Settings{}, filepath.Join(beside, "plugin"), path),
		"second": newFinder(Settings{}, filepath.Join(first, "plugin"), path),
	} {
		if got, err := f.runsc(t.Context()); err != nil || got.version != want {
			t.Errorf("%s: got %+v, %v", want, got, err)
		}
	}
}

// TestRunscThatCannotBeUsed: the error says where it was looked for, what is wrong, and what to do.
func TestRunscThatCannotBeUsed(t *testing.T) {
	old, broken, absent := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "runsc")
	oldOne := fakeRunsc(t, old, "  -overlay2 value\n", "2022")
	brokenOne := filepath.Join(broken, "runsc")
	os.WriteFile(brokenOne, []byte("#!/bin/sh\nexit 1\n"), 0o755)
	for what, c := range map[string]struct {
		f    *finder
		says []string
	}{
		"named, not there": {newFinder(Settings{Runsc: absent}, "", ""), []string{absent, "not there", "settings.runsc"}},
		"named, too old":   {newFinder(Settings{Runsc: oldOne}, "", ""), []string{oldOne, "too old", "--host-uds"}},
		"nowhere":          {newFinder(Settings{}, "/nowhere/plugin", t.TempDir()), []string{"/nowhere/runsc", "PATH", "gvisor.dev"}},
		"an old and a broken one": {newFinder(Settings{}, "", old+":"+broken), []string{
			oldOne, "too old", brokenOne, "exit status 1",
		}},
	} {
		_, err := c.f.runsc(t.Context())
		if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
			t.Errorf("%s: %s: %v", what, core.KindOf(err), err)
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q is not in: %v", what, text, err)
			}
		}
	}
}

// TestRunscThatIsReplaced is looked at again.
func TestRunscThatIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := fakeRunsc(t, dir, goodFlags, "one")
	f := newFinder(Settings{Runsc: path}, "", "")
	if got, err := f.runsc(t.Context()); err != nil || got.version != "one" || got.gofers {
		t.Fatalf("got %+v, %v", got, err)
	}
	fakeRunsc(t, dir, goodFlags+"  -gofer-network-namespace value\n", "two")
	os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
	if got, err := f.runsc(t.Context()); err != nil || got.version != "two" || !got.gofers {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSettings(t *testing.T) {
	for raw, says := range map[string]string{
		`{"runsc":"runsc"}`:                  "settings.runsc",
		`{"dir":"here"}`:                     "settings.dir",
		`{"platform":"native"}`:              "settings.platform",
		`{"max_image_bytes":-1}`:             "max_image_bytes",
		`{"max_cache_bytes":-1}`:             "max_cache_bytes",
		`{"image_days":-1}`:                  "image_days",
		`{"default_image":"NO"}`:             "NO",
		`{"images":{"python:3":"here.tar"}}`: "settings.images.python:3",
		`{"images":{"host":"/a.tar"}}`:       "host",
		`{"images":{"A":"/a.tar"}}`:          "A",
		`{"Runsc":"/x"}`:                     "Runsc",
		`{"unknown":1}`:                      "unknown",
	} {
		if _, err := decodeSettings(json.RawMessage(raw)); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	s, err := decodeSettings(json.RawMessage(`{"images":{"docker.io/library/python":"/a/../b.tar"}}`))
	if err != nil || s.Images["python:latest"] != "/b.tar" || s.DefaultImage != core.ImageHost || s.MaxImageBytes != defaultMaxImage || s.MaxCacheBytes != defaultMaxCache || s.ImageDays != defaultImageDays {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestFolders(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		settings     Settings
		env          func(string) string
		state, cache string
	}{
		{Settings{Dir: "/d"}, env("HOME", "/h"), "/d", "/d/cache"},
		{Settings{}, env("HOME", "/h"), "/h/.local/state/boxwright/gvisor", "/h/.cache/boxwright/gvisor"},
		{Settings{}, env("HOME", "/h", "XDG_STATE_HOME", "/s", "XDG_CACHE_HOME", "/c"), "/s/boxwright/gvisor", "/c/boxwright/gvisor"},
		{Settings{}, env("HOME", "/h", "XDG_STATE_HOME", "relative"), "/h/.local/state/boxwright/gvisor", "/h/.cache/boxwright/gvisor"},
	} {
		if got, err := foldersOf(c.settings, c.env); err != nil || got.state != c.state || got.cache != c.cache {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := foldersOf(Settings{}, env()); core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" {
		t.Errorf("without HOME: %v", err)
	}
}

// TestFoldersArePrivate: nobody else looks into boxes, also if a folder was there before.
func TestFoldersArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	os.Mkdir(dir, 0o777)
	f := folders{state: dir, cache: filepath.Join(dir, "cache")}
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{f.state, f.cache, f.boxes(), f.volumes(), f.runsc()} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != private {
			t.Errorf("%s is %v, %v", dir, info.Mode(), err)
		}
	}
}

// TestFoldersOfSomebodyElse: what lies there would be run, so nobody else may have made it.
func TestFoldersOfSomebodyElse(t *testing.T) {
	for name, spoil := range map[string]func(f folders) error{
		"a linked folder": func(f folders) error { return os.Symlink(t.TempDir(), f.state) },
		"a link below": func(f folders) error {
			return errors.Join(os.Mkdir(f.state, 0o700), os.Symlink(t.TempDir(), f.agents()))
		},
		"another's folder": func(f folders) error { return errors.Join(os.Mkdir(f.state, 0o700), os.Chown(f.state, 12345, -1)) },
		"another's layers": func(f folders) error {
			return errors.Join(os.MkdirAll(f.layer(""), 0o700), os.Chown(f.layer(""), 12345, -1))
		},
		"another's scratch": func(f folders) error {
			return errors.Join(os.MkdirAll(f.scratch(), 0o700), os.Chown(f.scratch(), 12345, -1))
		},
	} {
		dir := t.TempDir()
		f := folders{state: filepath.Join(dir, "state"), cache: filepath.Join(dir, "cache")}
		if err := spoil(f); err != nil {
			require(t, "gvisor", err)
		}
		if err := f.make(); core.KindOf(err) != core.ErrDenied || !strings.Contains(core.HintOf(err), "settings.dir") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCgroups(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"memory", "cpu"} {
		os.MkdirAll(filepath.Join(root, name, cgroupParent, "boxwright-x"), 0o755)
		os.WriteFile(filepath.Join(root, name, "cgroup.procs"), nil, 0o644)
	}
	if got := findCgroups(root, 0); !got.Memory || !got.CPU || got.PIDs || got.Unified {
		t.Errorf("version 1: %+v", got)
	}
	if got := findCgroups(root, 1000); got.any() {
		t.Errorf("an ordinary user: %+v", got)
	}
	c := cgroups{Root: root, Memory: true, CPU: true}
	killed := filepath.Join(root, "memory", cgroupParent, "boxwright-x", "memory.oom_control")
	for text, want := range map[string]bool{"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n": true, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n": false} {
		os.WriteFile(killed, []byte(text), 0o644)
		if got := c.oomKilled("boxwright-x"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	os.Remove(killed)
	if err := c.remove("boxwright-x"); err != nil || len(c.folders("boxwright-x")) > 0 {
		t.Errorf("%v are left, %v", c.folders("boxwright-x"), err)
	}
	second := cgroups{Root: root, Unified: true, Memory: true}
	os.MkdirAll(filepath.Join(root, cgroupParent, "boxwright-y"), 0o755)
	os.WriteFile(filepath.Join(root, cgroupParent, "boxwright-y", "memory.events"), []byte("low 0\noom 2\noom_kill 2\n"), 0o644)
	if !second.oomKilled("boxwright-y") || second.oomKilled("boxwright-z") {
		t.Error("version 2: what was killed is not told")
	}
}

func TestIDs(t *testing.T) {
	if id := newID(); !isID(id) {
		t.Errorf("%s is none", id)
	}
	for _, text := range []string{"", idPrefix, "boxwright-" + strings.Repeat("a", 25), "boxwright-" + strings.Repeat("a", 27), "boxwright-" + strings.Repeat("a", 25) + "1", "boxwright-" + strings.Repeat("/", 26), strings.Repeat("a", 36)} {
		if isID(text) {
			t.Errorf("%q is one", text)
		}
	}
}

// TestWhatAKilledPluginLeft is removed by the next that makes the same.
func TestWhatAKilledPluginLeft(t *testing.T) {
	b := storeBackend(t)
	for _, dir := range []string{b.folders.boxes(), b.folders.scratch()} {
		os.MkdirAll(filepath.Join(dir, temporary+"x", "inner"), 0o500)
	}
	old := filepath.Join(b.folders.agents(), "old")
	os.Mkdir(old, 0o755)
	os.Chtimes(old, time.Time{}, time.Now().Add(-2*agentAge))
	b.dropAgents("new")
	mine, err := b.newScratch(t.Context())
	if err == nil {
		err = mine.remove()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeRecord(newID(), record{}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{b.folders.boxes(), b.folders.scratch(), b.folders.agents()} {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, temporary+"*"))
		if len(hidden) > 0 || dir == b.folders.agents() && len(left) > 0 {
			t.Errorf("%v %v is left", left, hidden)
		}
	}
}

// TestVolumeThatABoxClosed can be removed although its owner may not enter it.
func TestVolumeThatABoxClosed(t *testing.T) {
	b := storeBackend(t)
	b.finder.now = &runsc{path: os.Args[0], changed: changed(t, os.Args[0])} // no box is made
	if _, err := b.EnsureVolume(t.Context(), core.Volume{Name: "v", Labels: core.Labels{Instance: "i"}}); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(b.folders.data("v"), "a", "b")
	os.MkdirAll(deep, 0o700)
	os.Symlink("/etc", filepath.Join(deep, "link"))
	os.Chmod(filepath.Dir(deep), 0)
	if err := b.RemoveVolume(t.Context(), "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(b.folders.volume("v")); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat("/etc"); err != nil {
		t.Error(err)
	}
}

func TestPluginDecodesItsSettings(t *testing.T) {
	_, err := Plugin{}.Open(t.Context(), sdk.Config{Settings: json.RawMessage(`{"dir":1}`)})
	if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "dir") {
		t.Errorf("got %v", err)
	}
}
