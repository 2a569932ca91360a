package installer

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestWhatTheImageHas is not installed again, if that is all; what a box says of it is read with care.
func TestWhatTheImageHas(t *testing.T) {
	for said, want := range map[string]string{
		"0 1.16.0\n1 2.0+local\n":       "in the image already: numpy 1.16.0, six 2.0+local",
		"0 1.16.0\n":                    "",
		"":                              "",
		"0 1.16.0\n1 <b>\n":             "",
		"0 1.16.0\n1\n":                 "",
		"0 1.16.0\n0 2\n2 1.0\n":        "",
		"noise\n 0 1.16.0 \n1 2 \n2 3 ": "in the image already: numpy 1.16.0, six 2",
	} {
		g := &fakeGuest{prints: map[string]string{"os.makedirs": said}}
		installed, err := New(Options{}).Install(t.Context(), g, requirements(t, "six", "numpy>=1"), nil)
		_, ran := g.command("pip compile")
		if err != nil || ran != (want == "") || want != "" && installed != (core.Installed{Report: want}) {
			t.Errorf("%q: got %+v, %v; resolved: %v", said, installed, err, ran)
		}
	}
}

// TestRealLook asks images of the tests, with markers, extras and versions that are there and that are not.
func TestRealLook(t *testing.T) {
	g := container(t)
	version := strings.TrimSpace(g.shell(t, `python3 -c "import importlib.metadata as m; print(m.version('pip'))"`))
	for text, want := range map[string]bool{
		"pip": true, "pip>=1": true, "pip==" + version: true, `pip; python_version > "3"`: true,
		"pip>999": false, `pip; python_version < "3"`: false, "pip[extra]": false, "no-such-pkg-zz9": false,
	} {
		list := requirements(t, text)
		j := New(Options{}).newJob(g, list, nil)
		present, err := j.look(t.Context(), list)
		if err != nil || (present == "in the image already: pip "+version) != want {
			t.Errorf("%s: got %q, %v", text, present, err)
		}
	}
}

// TestVersions reads what pip says, and nothing but versions of it.
func TestVersions(t *testing.T) {
	said := "six (1.17.0)\nAvailable versions: 1.16.0, 1.17.0, <b>, 1.15\n  INSTALLED: 1.0\n"
	for _, tt := range []struct {
		said string
		code int
		want []string
		err  error
	}{
		{said, 0, []string{"1.17.0", "1.16.0", "1.15"}, nil},
		{"Available versions: \n", 0, nil, core.ErrNotFound},
		{"ERROR: No matching distribution found for six\n", 1, nil, core.ErrNotFound},
		{"WARNING: Retrying (Retry(total=0\nERROR: No matching distribution found for six\n", 1, nil, core.ErrUnavailable},
		{"/usr/bin/python3: No module named pip\n", 1, nil, core.ErrUnavailable},
	} {
		g := &fakeGuest{prints: map[string]string{"index versions": tt.said}, exits: map[string]core.Exit{"index versions": {Code: tt.code}}}
		found, err := New(Options{ExtraIndexURLs: []string{"https://u:p@private.example"}}).Versions(t.Context(), g, "six")
		if !errors.Is(err, tt.err) || !slices.Equal(found.Versions, tt.want) {
			t.Errorf("%q: got %+v, %v", tt.said, found, err)
		}
		if spec, _ := g.command("index versions"); spec.Env["PIP_INDEX_URL"] != "" || spec.Argv[len(spec.Argv)-1] != "six" {
			t.Errorf("it asked %q with %q", spec.Argv, spec.Env)
		}
	}
}

// TestTwoNamesInOneBox: a box has no two runs of one id.
func TestTwoNamesInOneBox(t *testing.T) {
	g := &fakeGuest{}
	for _, name := range []string{"six", "idna"} {
		_, _ = New(Options{}).Versions(t.Context(), g, name)
	}
	if len(g.runs) != 2 || g.runs[0].ID == g.runs[1].ID {
		t.Errorf("it ran %+v", g.runs)
	}
}

// TestRealVersions asks the index that pip asks by itself.
func TestRealVersions(t *testing.T) {
	g := container(t)
	p := New(Options{CABundle: os.Getenv("SSL_CERT_FILE")})
	found, err := p.Versions(t.Context(), g, "six")
	if err != nil || len(found.Versions) != mostVersions || found.Name != "six" {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := p.Versions(t.Context(), g, "no-such-pkg-zz9"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an unknown package: %v", err)
	}
}
