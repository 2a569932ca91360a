package installer

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/boxwright/boxwright/core"
)

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
