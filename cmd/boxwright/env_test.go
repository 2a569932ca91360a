package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
)

// installed are two environments with the same beginning of their keys, and one whose texts are hostile.
func installed() []core.Environment {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 4, 5, 0, time.UTC) }
	return []core.Environment{
		{
			Key: "abc1" + strings.Repeat("0", 60), Backend: "docker", Zone: "secret-zone", Folder: "secret-folder", Language: core.LanguagePython,
			Names: []string{"numpy>=2", "pandas"}, Lock: "numpy==2.1\npandas==2.2\n", Report: "Installed 2", Size: 412 << 20, Created: at(1), Used: at(3),
		},
		{Key: "abc2" + strings.Repeat("0", 60), Backend: "podman", Names: []string{"six"}, Size: 11_400, Created: at(2), Used: at(5)},
		{Key: "f00" + strings.Repeat("0", 61), Backend: "docker", Names: []string{"idna"}, Lock: "\x1b]0;owned\x07idna==3\n", Size: 3, Created: at(2)},
	}
}

// envs runs a command on the environments of a new state folder.
func envs(t *testing.T, list []core.Environment, args ...string) (out string, err error) {
	t.Helper()
	withoutSettings(t)
	dir := t.TempDir()
	database, err := sqlite.Open(filepath.Join(dir, databaseFile), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	if len(list) > 0 { // somebody is filling a folder
		list = append(list, list[0].Remains(list[0].Created))
	}
	for _, e := range list {
		if err := database.Environments().Put(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("BOXWRIGHT_STORAGE_DIR", dir)
	var buf bytes.Buffer
	c := command()
	c.SetOut(&buf)
	c.SetArgs(append([]string{"env"}, args...))
	err = c.ExecuteContext(t.Context())
	return buf.String(), err
}

func TestEnvList(t *testing.T) {
	local := func(hour int) string {
		return time.Date(2026, 1, 2, hour, 4, 5, 0, time.UTC).Local().Format("2006-01-02 15:04")
	}
	out, err := envs(t, installed(), "list")
	want := "KEY           BACKEND  SIZE      CREATED           USED              PACKAGES\n" +
		"abc200000000  podman   11.1 KiB  " + local(2) + "  " + local(5) + "  six\n" +
		"abc100000000  docker   412 MiB   " + local(1) + "  " + local(3) + "  numpy>=2, pandas\n" +
		"f00000000000  docker   3 B       " + local(2) + "  -                 idna\n"
	if err != nil || out != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out, want)
	}
	if out, err := envs(t, nil, "list"); err != nil || out != "no packages are installed\n" {
		t.Errorf("of none: %q, %v", out, err)
	}
}

func TestEnvListJSON(t *testing.T) {
	out, err := envs(t, installed(), "list", "--json")
	var list []map[string]any
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 3 {
		t.Fatalf("got %v\n%s", err, out)
	}
	first := list[1]
	if first["key"] != installed()[0].Key || first["size_bytes"] != float64(412<<20) || first["used"] != "2026-01-02T03:04:05Z" || first["language"] != "python" {
		t.Errorf("got %v", first)
	}
	if strings.Contains(out, "secret") || strings.Contains(out, "lock") {
		t.Errorf("it tells too much: %s", out)
	}
	if out, err := envs(t, nil, "list", "--json"); err != nil || out != "[]\n" {
		t.Errorf("of none: %q, %v", out, err)
	}
}

func TestEnvShow(t *testing.T) {
	out, err := envs(t, installed(), "show", "abc1")
	for _, want := range []string{
		"key       " + installed()[0].Key + "\n", "packages  numpy>=2, pandas\n", "backend   docker\n", "language  python\n", "size      412 MiB\n",
		"\nlock:\nnumpy==2.1\npandas==2.2\n", "\nthe installer's last lines:\nInstalled 2\n",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("it lacks %q, %v:\n%s", want, err, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Errorf("it tells where it is: %s", out)
	}
	var shown map[string]any
	out, err = envs(t, installed(), "show", "--json", installed()[0].Key)
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil || shown["lock"] != installed()[0].Lock || shown["report"] != "Installed 2" {
		t.Errorf("got %v\n%s", err, out)
	}
}

// What an installer's box wrote does nothing to the terminal.
func TestEnvShowIsHarmless(t *testing.T) {
	for _, args := range [][]string{{"show", "f"}, {"show", "f", "--json"}} {
		if out, err := envs(t, installed(), args...); err != nil || strings.ContainsAny(out, "\x1b\x07") || strings.Contains(out, "owned") || !strings.Contains(out, "idna==3") {
			t.Errorf("%q: got %q, %v", args, out, err)
		}
	}
}

func TestEnvRefusals(t *testing.T) {
	for _, tt := range []struct {
		args string
		kind core.Kind
		want string
	}{
		{"show abc", core.ErrInvalid, "2 installed sets of packages have keys that begin with"},
		{"show abc9", core.ErrNotFound, "boxwright env list tells which there are"},
		{"show remains", core.ErrNotFound, "no installed set of packages"},
		{"show", core.ErrInvalid, "boxwright env show needs one KEY, not 0"},
		{"show a b", core.ErrInvalid, "needs one KEY, not 2"},
		{"list all", core.ErrInvalid, `there is no command "boxwright env list all"`},
		{"lst", core.ErrInvalid, `there is no command "boxwright env lst"`},
		{"list --jsn", core.ErrInvalid, "see boxwright env list --help"},
		{"list --set storage.environments=memory", core.ErrUnsupported, "set storage.environments to disk"},
		{"warm six --set storage.environments=memory", core.ErrUnsupported, "set storage.environments to disk"},
		{"gc --set storage.environments=memory", core.ErrUnsupported, "set storage.environments to disk"},
		{"gc now", core.ErrInvalid, `there is no command "boxwright env gc now"`},
		{"warm", core.ErrInvalid, "or set dependencies.warm"},
		{"warm --image python", core.ErrInvalid, "write: boxwright env warm --image python PACKAGE ..."},
		{"warm six --set limits.memory=x", core.ErrInvalid, "limits.memory must be a size"},
	} {
		out, err := envs(t, installed(), strings.Fields(tt.args)...)
		if core.KindOf(err) != tt.kind || err == nil || !strings.Contains(err.Error(), tt.want) || out != "" {
			t.Errorf("%s: got %q, %v", tt.args, out, err)
		}
	}
}

func TestRoughly(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 KiB", 102_297: "99.9 KiB", 102_400: "100 KiB", 1 << 20: "1.0 MiB", 20 << 30: "20.0 GiB", 5 << 50: "5120 TiB",
	} {
		if got := roughly(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestPrintCollected(t *testing.T) {
	for asJSON, want := range map[bool]string{
		false: "removed 3 installed sets of packages, 1.5 GiB\n", true: "{\n  \"environments\": 3,\n  \"bytes\": 1610612736\n}\n",
	} {
		var out bytes.Buffer
		flags := envFlags{asJSON: asJSON}
		if err := flags.printCollected(&out, core.Collected{Environments: 3, Bytes: 3 << 29}); err != nil || out.String() != want {
			t.Errorf("got %q, %v", &out, err)
		}
	}
}

func TestSetsToWarm(t *testing.T) {
	c := settingsFrom(t, "", nil)
	c.Dependencies.Warm = []config.WarmSet{{Image: "python:3.13-slim", Packages: []string{"polars"}}, {Packages: []string{"six"}}}
	sets, err := setsToWarm(c, "", nil)
	if err != nil || len(sets) != 2 || sets[0].Image != "python:3.13-slim" || sets[1].Packages[0] != "six" || sets[1].Tenant != localTenant {
		t.Errorf("of the settings: %+v, %v", sets, err)
	}
	sets, err = setsToWarm(c, "python", []string{"numpy", "pandas"})
	if err != nil || len(sets) != 1 || sets[0].Image != "python" || len(sets[0].Packages) != 2 || sets[0].Tenant != localTenant {
		t.Errorf("of the command line: %+v, %v", sets, err)
	}
	c.Dependencies.Enabled = false
	if sets := warmSets(c); len(sets) > 0 {
		t.Errorf("nothing may be installed, but %+v", sets)
	}
}
