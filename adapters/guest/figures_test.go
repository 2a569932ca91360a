package guest_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

const matplotlibImage = "boxwright-test/matplotlib:1"

func TestFigures(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":     {"--memory", "1g"},
		"preloaded": {"--memory", "1g", "--", "--preload", "numpy,matplotlib,no_such_module"},
	} {
		t.Run(name, func(t *testing.T) { figures(t, start(t, matplotlibImage, flags...)) })
	}
}

func figures(t *testing.T, g execution.Guest) {
	t.Helper()
	for _, c := range []struct{ name, code, files, stderr string }{
		{"B89 show", "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()", "figure-1.png", ""},
		{"B65 three", "import matplotlib.pyplot as plt\nfor i in range(3): plt.figure(); plt.plot([i])\nplt.show(); plt.show()", "figure-2.png figure-3.png figure-4.png", ""},
		{"B65 none", "import matplotlib.pyplot as plt", "", ""},
		{"left open", "from matplotlib import pyplot as plt\nplt.plot([1]); plt.figure()", "figure-5.png figure-6.png", ""},
		{"saved by itself", "import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig('own.png'); plt.show()", "own.png", ""},
		{"one of two", "import matplotlib.pyplot as plt; a = plt.figure(); a.savefig('a.png'); plt.figure(); print(plt.get_backend().lower())", "a.png figure-7.png", ""},
		{"figure.show", "import matplotlib.pyplot as plt; f, x = plt.subplots(); x.plot([1]); f.show()", "figure-8.png", ""},
		{"error", "import matplotlib.pyplot as plt; plt.plot([1]); 1/0", "figure-9.png", "ZeroDivisionError"},
		{"exit", "import matplotlib.pyplot as plt; plt.plot([1]); raise SystemExit", "figure-10.png", ""},
		{"pylab", "from pylab import *; plot([1]); show()", "figure-11.png", ""},
		{"elsewhere", "import os; os.makedirs('d', exist_ok=True); os.chdir('d')\nimport matplotlib.pyplot as plt; plt.plot([1]); plt.show()", "figure-12.png", ""},
		{"late import", "def f():\n    import matplotlib.pyplot as p\n    p.hist([1, 2]); p.show()\nf()", "figure-13.png", ""},
		{"cannot be saved", "import matplotlib.pyplot as plt; plt.title('$\\\\nonsense$'); plt.show()", "", "a figure could not be saved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := python(c.code)
			spec.Timeout *= 4 // the first builds a cache of fonts
			exit := run(t, g, spec)
			checkFigures(t, exit, c.files, c.stderr)
		})
	}
	if p, err := g.Preview(t.Context(), "figure-1.png", 1<<20); err != nil || p.Shrunk {
		t.Errorf("preview: %v", err)
	}
}

func checkFigures(t *testing.T, exit core.Exit, want, wantStderr string) {
	t.Helper()
	var files []string
	for _, f := range exit.Files {
		if files = append(files, f.Path); f.Size == 0 {
			t.Errorf("%s is empty", f.Path)
		}
	}
	stderr := string(exit.Stderr.Head)
	failed := wantStderr == "ZeroDivisionError"
	if !sameFiles(files, want) || exit.Code != 0 != failed || !strings.Contains(stderr, wantStderr) || wantStderr == "" && stderr != "" {
		t.Errorf("want %s, got %s", want, describe(exit))
	}
	if len(exit.Warnings) > 0 {
		t.Errorf("warnings: %q", exit.Warnings)
	}
}

// sameFiles compares without regard to order: paths are sorted as text, figures by number.
func sameFiles(got []string, want string) bool {
	seen := map[string]int{}
	for _, name := range got {
		seen[name]++
	}
	for name := range strings.FieldsSeq(want) {
		seen[name]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}

// TestFiguresInASession: each piece of code gets its own, once.
func TestFiguresInASession(t *testing.T) {
	g := start(t, matplotlibImage, "--memory", "1g")
	for _, c := range []struct{ name, code, files, shown string }{
		{"left open", "import matplotlib; from matplotlib import pyplot as plt\nplt.plot([1]);", "figure-1.png", ""},
		{"nothing new", "plt.get_fignums()", "", "plain:[]"},
		{"last expression", "f, x = plt.subplots(); x.plot([1])\nf", "figure-2.png", "plain:<Figure size 640x480 with 1 Axes>"},
		{"changed later", "x.plot([2])\nf", "figure-3.png", "plain:<Figure size 640x480 with 1 Axes>"},
		{"displayed and shown", "f = plt.figure(); display(f); plt.show()", "figure-4.png", "plain:<Figure size 640x480 with 0 Axes>"},
		{"saved by itself", "plt.plot([1]); plt.savefig('own.png')", "own.png", ""},
		{"two", "plt.figure(1); plt.figure(2);", "figure-5.png figure-6.png", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := cell(c.code)
			spec.Timeout *= 4 // the first builds a cache of fonts
			exit := run(t, g, spec)
			checkFigures(t, exit, c.files, "")
			if got := shown(exit); got != c.shown {
				t.Errorf("want %q, got %q", c.shown, got)
			}
		})
	}
}
