package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestTakeInstalls(t *testing.T) {
	for name, tt := range map[string]struct {
		code, rest string
		want       []string
	}{
		"none":               {"print('pip install x')", "print('pip install x')", nil},
		"one":                {"%pip install pandas\nimport pandas\n", "\nimport pandas\n", []string{"pandas"}},
		"alone":              {"%pip install pandas", "pass", []string{"pandas"}},
		"with the shell":     {"!pip install x y\r\n! pip3 install z;\n1", "\n\n1", []string{"x", "y", "z"}},
		"by the interpreter": {"!python -m pip install a\n!python3 -m pip install b\n!{sys.executable} -m pip install c\n!uv pip install d\n1", "\n\n\n\n1", []string{"a", "b", "c", "d"}},
		"harmless options":   {"%pip install -q --upgrade --no-cache-dir x --user\n!pip install --upgrade pip\n1", "\n\n1", []string{"x"}},
		"silenced":           {"!pip install x > /dev/null 2>&1\n!pip install y &>/dev/null\n1", "\n\n1", []string{"x", "y"}},
		"quotes":             {"%pip install \"pandas>=2,<3\" 'requests[socks]' tomli>=2 'a; python_version<\"3\"' # six\n1", "\n1", []string{"pandas>=2,<3", "requests[socks]", "tomli>=2", `a; python_version<"3"`}},
		"several lines":      {"%pip install a \\\n  b \\\n  c\n1", "\n\n\n1", []string{"a", "b", "c"}},
		"in a block":         {"try:\n  import x\nexcept ImportError:\n  !pip install x\n  x()\n\t%pip install y", "try:\n  import x\nexcept ImportError:\n  pass\n  x()\n\tpass", []string{"x", "y"}},
		"in strings": {
			"a = '''\n%pip install x\n'''\nb = r\"\"\"\\\"\"\"\n!pip install x\n\"\"\"\nc = 'it\\\n%pip install x'\n",
			"a = '''\n%pip install x\n'''\nb = r\"\"\"\\\"\"\"\n!pip install x\n\"\"\"\nc = 'it\\\n%pip install x'\n", nil,
		},
		"in brackets and continued": {"a = (7 # (\n%pip install x\n)\nb = 7 \\\n%pip install x\n", "a = (7 # (\n%pip install x\n)\nb = 7 \\\n%pip install x\n", nil},
		"after strings, brackets":   {"a = '''x''' + \"it's\" + f'{b[\"c\"]}' # '''\nd = {'(': \"[\"}\n%pip install x\ne = 'open\n%pip install y\n", "a = '''x''' + \"it's\" + f'{b[\"c\"]}' # '''\nd = {'(': \"[\"}\n\ne = 'open\n\n", []string{"x", "y"}},
		"other commands":            {"%pip list\n!pip download install\n!pipx install x\n%time pip install x\npip install x\n# %pip install x", "%pip list\n!pip download install\n!pipx install x\n%time pip install x\npip install x\n# %pip install x", nil},
	} {
		rest, got, err := core.TakeInstalls(tt.code)
		if err != nil || rest != tt.rest || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, %q, %v\nwant %q, %q", name, rest, got, err, tt.rest, tt.want)
		}
		if strings.Count(rest, "\n") != strings.Count(tt.code, "\n") {
			t.Errorf("%s: lines are not where they were: %q", name, rest)
		}
	}
}

func TestInstallsThatAreMore(t *testing.T) {
	for line, want := range map[string]string{
		"%pip install -r requirements.txt":              "the option -r",
		"%pip install --index-url=https://x.example/ x": "the option --index-url",
		"!pip install -e .":                             "the option -e",
		"!pip install x && rm -r y":                     "has &&, which is for a shell",
		"!pip install x | tail -1":                      "has |, which is for a shell",
		"!pip install x > log.txt":                      "has >, which is for a shell",
		"!pip install $X":                               "has $X, which is for a shell",
		"%pip install":                                  "names no package",
		"%pip install -q":                               "names no package",
		"%pip install 'x":                               "a quote that is not closed",
		"%pip install ''":                               "an empty word",
	} {
		_, got, err := core.TakeInstalls("x = 1\n" + line)
		if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2 of the code") || got != nil {
			t.Errorf("%s: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// FuzzTakeInstalls: no line of any code moves, and what is taken out is not there any more.
func FuzzTakeInstalls(f *testing.F) {
	for _, seed := range []string{"%pip install x \\\n y", "'''\n%pip install x", "if 1:\n !pip install 'x' # y", "a = (\n!pip install x\n)\n%pip install y;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		rest, packages, err := core.TakeInstalls(code)
		if err != nil {
			return
		}
		if (len(packages) == 0 && rest != code && !strings.Contains(code, "pip")) || rest != "pass" && strings.Count(rest, "\n") != strings.Count(code, "\n") {
			t.Errorf("%q became %q, %q", code, rest, packages)
		}
		again, more, err := core.TakeInstalls(rest)
		if err != nil || len(more) > 0 || again != rest {
			t.Errorf("%q became %q, then %q, %q, %v", code, rest, again, more, err)
		}
	})
}
