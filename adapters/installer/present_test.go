package installer

import (
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
		installed, err := New(Options{}).Install(t.Context(), g, core.Ready{}, requirements(t, "six", "numpy>=1"), nil)
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
