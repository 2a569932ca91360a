package installer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// TestPrepare: a box that waits is asked what it has, and gets nothing that is secret.
func TestPrepare(t *testing.T) {
	failed := map[string]core.Exit{"--version": {Code: 1}}
	for name, tt := range map[string]struct {
		options Options
		guest   *fakeGuest
		want    core.Ready
	}{
		"uv of the image":  {Options{}, &fakeGuest{}, core.Ready{Tool: "uv", Looked: true}},
		"uv of the cache":  {Options{}, &fakeGuest{has: missing("uv")}, core.Ready{Tool: cachedUV, Looked: true}},
		"no uv":            {Options{}, &fakeGuest{exits: failed}, core.Ready{Looked: true}},
		"a private cache":  {Options{PrivateCache: true}, &fakeGuest{has: missing("uv")}, core.Ready{Looked: true}},
		"packages":         {Options{}, &fakeGuest{prints: map[string]string{"os.makedirs": "pip\nsome-pkg\n"}}, core.Ready{Tool: "uv", Looked: true, Has: []string{"pip", "some-pkg"}}},
		"too many of them": {Options{}, &fakeGuest{prints: map[string]string{"os.makedirs": "pip\n…\nsome-pkg\n"}}, core.Ready{Tool: "uv"}},
		"no Python":        {Options{}, &fakeGuest{has: missing("python3")}, core.Ready{}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.IndexURL, tt.options.HTTPSProxy = "https://user:secret@index.example/simple", "http://user:secret@proxy.example"
			got, err := New(tt.options).Prepare(t.Context(), tt.guest)
			if err != nil || got.Tool != tt.want.Tool || got.Looked != tt.want.Looked || !slices.Equal(got.Has, tt.want.Has) {
				t.Errorf("got %+v, %v", got, err)
			}
			for _, run := range tt.guest.runs {
				if len(run.Env) > 0 {
					t.Errorf("%q gets %v", run.Argv[0], run.Env)
				}
			}
			if len(tt.guest.files) > 0 {
				t.Errorf("it has files: %v", tt.guest.files)
			}
		})
	}
	dead := &fakeGuest{dead: core.Errorf(core.ErrUnavailable, "the box is gone")}
	if _, err := New(Options{}).Prepare(t.Context(), dead); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("got %v from a box that is gone", err)
	}
}

// TestPreparedInstall asks nothing again that is known, but does where a package is in the image.
func TestPreparedInstall(t *testing.T) {
	ready := core.Ready{Tool: "/some/uv", Looked: true, Has: []string{"some-pkg"}}
	for _, tt := range []struct {
		options Options
		name    string
		looks   bool
	}{{Options{}, "six", false}, {Options{}, "Some_Pkg", true}, {Options{Wheels: t.TempDir()}, "six", true}} {
		g := &fakeGuest{}
		if _, err := New(tt.options).Install(t.Context(), g, ready, requirements(t, tt.name), nil); err != nil {
			t.Fatal(err)
		}
		_, asked := g.command("--version")
		_, looked := g.command("re.fullmatch")
		if _, installed := g.command("/some/uv pip install"); !installed || asked || looked != tt.looks {
			t.Errorf("%s: installed %v, asked for uv %v, looked %v", tt.name, installed, asked, looked)
		}
	}
}

// TestGuard ends like its command, and has the other program follow if that succeeds.
func TestGuard(t *testing.T) {
	const touch = "import sys; open(sys.argv[1], 'w').close(); print(sys.argv[2:])"
	j := New(Options{}).newJob(nil, nil, nil)
	for status, follows := range map[string]bool{"0": true, "3": false} {
		mark := filepath.Join(t.TempDir(), "mark")
		argv := j.guard(touch, []string{mark, "more"}, []string{"sh", "-c", "exit " + status})
		beginning := "import atexit, os, sys\natexit.register(lambda: os._exit(0))" // the status is not what is looked at
		said := runProgram(t, beginning, argv[4], argv[5:]...)
		if _, err := os.Stat(mark); (err == nil) != follows {
			t.Errorf("status %s: %q, %v", status, said, err)
		}
	}
}
