package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata/config")

// TestCases loads each case of testdata/config: the files of the archive, in a folder of its own,
// give the settings file (boxwright.yaml), the environment (env and .env), the flags (flags) and pip's
// configuration (pip.conf); want is the error, or the settings that differ from the defaults, and the notes.
func TestCases(t *testing.T) {
	cases, err := filepath.Glob("../../testdata/config/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range cases {
		file, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(t, archive)
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if i < 0 {
				archive.Files = append(archive.Files, txtar.File{Name: "want"})
				i = len(archive.Files) - 1
			}
			if *update {
				archive.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := string(archive.Files[i].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func outcome(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	source := config.Source{Environ: []string{"HOME=" + dir}, Flags: map[string]string{}, PipConfigs: []string{}}
	for _, f := range archive.Files {
		lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(f.Data), "$DIR", dir)), "\n")
		switch f.Name {
		case "want":
		case "env":
			source.Environ = append(source.Environ, lines...)
		case "flags":
			for _, line := range lines {
				name, value, _ := strings.Cut(line, "=")
				source.Flags[name] = value
			}
		default:
			write(t, filepath.Join(dir, f.Name), string(f.Data))
		}
		switch f.Name {
		case "boxwright.yaml":
			source.File, source.Explicit = f.Name, true
		case "pip.conf":
			source.PipConfigs = []string{f.Name}
		}
	}
	c, err := config.Load(source)
	if err != nil {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v is not core.ErrInvalid", err)
		}
		return strings.ReplaceAll(err.Error(), dir, "$DIR") + "\n"
	}
	return strings.ReplaceAll(different(t, c), dir, "$DIR")
}

// different shows the settings that differ from the defaults, and the notes, as JSON.
func different(t *testing.T, c config.Config) string {
	t.Helper()
	defaults := config.Default().Values()
	changed := map[string]any{}
	for name, value := range c.Values() {
		if was, has := defaults[name]; !has || was != value {
			changed[name] = value
		}
	}
	if len(c.Notes) > 0 {
		changed["notes"] = c.Notes
	}
	text, err := json.MarshalIndent(changed, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, source config.Source) config.Config {
	t.Helper()
	source.Environ = append([]string{"HOME=" + t.TempDir()}, source.Environ...)
	if source.PipConfigs == nil {
		source.PipConfigs = []string{}
	}
	c, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryConfigLoads(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		load(t, config.Source{File: file, Explicit: true})
	}
}

// Whoever copies full.yaml changes nothing by it, whatever the host is set to.
func TestFullConfigIsTheDefaults(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "ca.pem"), "x")
	write(t, filepath.Join(home, "pip.conf"), "[global]\nindex-url = https://conf.example/simple\n")
	host := []string{
		"PIP_INDEX_URL=https://user:pw@index.example/simple", "PIP_EXTRA_INDEX_URL=https://a.example https://b.example",
		"PIP_CERT=" + filepath.Join(home, "ca.pem"), "HTTP_PROXY=http://proxy.example:1", "HTTPS_PROXY=http://proxy.example:2",
		"NO_PROXY=.example", "XDG_STATE_HOME=" + filepath.Join(home, "state"),
	}
	for name, source := range map[string]config.Source{
		"bare": {}, "variables": {Environ: host}, "pip.conf": {PipConfigs: []string{filepath.Join(home, "pip.conf")}},
	} {
		t.Run(name, func(t *testing.T) {
			source.Environ = append(source.Environ, "HOME="+home)
			bare := load(t, source)
			source.File, source.Explicit = "../../configs/full.yaml", true
			full := load(t, source)
			if !reflect.DeepEqual(full, bare) {
				t.Errorf("full.yaml gives\n%v\nwithout it there is\n%v", full.Values(), bare.Values())
			}
			if name != "bare" && full.Dependencies.IndexURL.IsZero() {
				t.Error("the host's index is lost")
			}
		})
	}
}

func TestRoom(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		artifacts, dir      string
		maxBytes, maxPerRun config.Size
		want                int64
	}{
		{"disk", "/files", 5 << 30, 200 * mib, 5 << 30},
		{"disk", "/files", 0, 200 * mib, 0},
		{"memory", "/files", 5 << 30, 200 * mib, 256 * mib},
		{"disk", config.NoFiles, 0, 200 * mib, 256 * mib},
		{"memory", "/files", 5 << 30, 1 << 30, 1 << 30},
		{"memory", config.NoFiles, 100 * mib, 50 * mib, 100 * mib},
	} {
		files := config.Files{Dir: tt.dir, MaxBytes: tt.maxBytes, MaxPerRun: tt.maxPerRun}
		if got := files.Room(config.Storage{Artifacts: tt.artifacts}); got != tt.want {
			t.Errorf("%+v: room is %d", tt, got)
		}
	}
}

// Only what falls back may be empty.
func TestEmptyIsNotAlwaysNothing(t *testing.T) {
	for _, key := range []string{"backend", "images.pull", "limits.memory", "log.level"} {
		if _, err := config.Load(config.Source{Environ: []string{"HOME=/h"}, PipConfigs: []string{}, Flags: map[string]string{key: ""}}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: got %v", key, err)
		}
	}
	c := load(t, config.Source{Environ: []string{"PIP_INDEX_URL=https://index.example"}, Flags: map[string]string{"dependencies.index_url": ""}})
	if c.Dependencies.IndexURL.Reveal() != "https://index.example" {
		t.Error("an empty flag overrules the host")
	}
}

func TestSecretsStayHidden(t *testing.T) {
	const secret = "hunter2"
	c := load(t, config.Source{Environ: []string{
		"BOXWRIGHT_DEPENDENCIES_INDEX_URL=https://user:" + secret + "@index.example/simple",
		"BOXWRIGHT_DEPENDENCIES_EXTRA_INDEX_URLS=https://user:" + secret + "@extra.example/simple",
		"HTTPS_PROXY=http://user:" + secret + "@proxy.example:1",
		"HTTP_PROXY=user:" + secret + "@proxy.example:1",
	}})
	if got := c.Dependencies.IndexURL.Reveal(); !strings.Contains(got, secret) {
		t.Errorf("the secret is lost: %q", got)
	}
	if got := c.Dependencies.ExtraIndexURLs[0].Reveal(); !strings.Contains(got, secret) {
		t.Errorf("the secret of a list is lost: %q", got)
	}
	for form, text := range everyForm(t, c) {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret: %s", form, text)
		}
	}
	for _, variable := range []string{"INDEX_URL", "EXTRA_INDEX_URLS", "HTTP_PROXY", "HTTPS_PROXY"} {
		for _, wrong := range []string{`"` + secret, secret, "ftp://" + secret, "://" + secret} {
			_, err := config.Load(config.Source{Environ: []string{"HOME=/h", "BOXWRIGHT_DEPENDENCIES_" + variable + "=" + wrong}, PipConfigs: []string{}})
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("%s=%s: %v", variable, wrong, err)
			}
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	environ := []string{"HOME=" + dir}
	check := func(wantFile string, wantExplicit bool) {
		t.Helper()
		file, explicit := config.Find(environ)
		if file != wantFile || explicit != wantExplicit {
			t.Errorf("got %q, %v, want %q, %v", file, explicit, wantFile, wantExplicit)
		}
	}
	check("", false)
	write(t, ".config/boxwright/config.yml", "")
	check(filepath.Join(dir, ".config/boxwright/config.yml"), false)
	write(t, ".config/boxwright/config.yaml", "")
	check(filepath.Join(dir, ".config/boxwright/config.yaml"), false)
	write(t, "xdg/boxwright/config.yaml", "")
	environ = append(environ, "XDG_CONFIG_HOME="+filepath.Join(dir, "xdg"))
	check(filepath.Join(dir, "xdg/boxwright/config.yaml"), false)
	write(t, "boxwright.yaml", "")
	check(filepath.Join(dir, "xdg/boxwright/config.yaml"), false) // anybody's project may hold one
	environ = append(environ, "BOXWRIGHT_CONFIG=missing.yaml")
	check("missing.yaml", true)
}

// The file that is not read is named.
func TestTwoSpellings(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.yaml"), "limits: {cpus: 2}")
	write(t, filepath.Join(dir, "config.yml"), "limits: {cpus: 3}")
	c := load(t, config.Source{File: filepath.Join(dir, "config.yaml")})
	if c.Limits.CPUs != 2 || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "config.yml is not read") {
		t.Errorf("got %v CPUs, notes %q", c.Limits.CPUs, c.Notes)
	}
	if c := load(t, config.Source{File: filepath.Join(dir, "config.yml")}); c.Limits.CPUs != 3 || len(c.Notes) != 0 {
		t.Errorf("got %v CPUs, notes %q", c.Limits.CPUs, c.Notes)
	}
}

func TestMissingFile(t *testing.T) {
	source := config.Source{File: filepath.Join(t.TempDir(), "none.yaml")}
	load(t, source)
	source.Explicit = true
	if _, err := config.Load(source); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v, want core.ErrInvalid", err)
	}
}

func TestPipFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, ".config/pip/pip.conf"), "[global]\nindex-url = https://user.example/simple\n")
	write(t, filepath.Join(dir, ".pip/pip.conf"), "[global]\nindex-url = https://old.example/simple\nextra-index-url =\n  https://a.example\n  https://b.example\n")
	c, err := config.Load(config.Source{Environ: []string{"HOME=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Dependencies.IndexURL.Reveal(); got != "https://user.example/simple" {
		t.Errorf("index is %q", got)
	}
	if got := c.Dependencies.ExtraIndexURLs; len(got) != 2 || got[1].Reveal() != "https://b.example" {
		t.Errorf("extra indexes are %d", len(got))
	}
	write(t, filepath.Join(dir, "own.conf"), "[install]\nindex-url = https://no.example\n[global]\nindex_url: https://own.example/simple\n")
	c, err = config.Load(config.Source{Environ: []string{"HOME=" + dir, "PIP_CONFIG_FILE=" + filepath.Join(dir, "own.conf")}})
	if err != nil || c.Dependencies.IndexURL.Reveal() != "https://own.example/simple" {
		t.Errorf("index is %q, %v", c.Dependencies.IndexURL.Reveal(), err)
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{"limits:\n  memory: 2g\n", "a: &a [*a]", "backends: {docker: {settings: {x: {y.z: 1}}}}", "? [1]\n: 2", "routes: [{image: a, backend: docker}, *x]", "routes: [{language: python, image: {}}]", "dependencies: {warm: [{packages: [a, {}]}, {packages: &a [b]}, {packages: *a}]}", "\t", "--- a\n--- b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "f.yaml")
		write(t, file, text)
		c, err := config.Load(config.Source{File: file, Explicit: true, Environ: []string{"HOME=/h"}, PipConfigs: []string{}})
		if err != nil && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v is not core.ErrInvalid", text, err)
		}
		if err == nil && c.Validate() != nil {
			t.Errorf("%q: loaded, but is not valid", text)
		}
	})
}
