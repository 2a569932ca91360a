package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestInlineMetadata(t *testing.T) {
	for name, tt := range map[string]struct {
		code  string
		want  []string
		needs string
	}{
		"none":                         {code: "import pandas\n"},
		"usual":                        {code: "# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"requests<3\",\n#   'rich', # for colours\n# ]\n# ///\nimport requests\n", want: []string{"requests<3", "rich"}, needs: ">=3.11"},
		"after a line for the shell":   {code: "#!/usr/bin/env python3\n\n# /// script\n# dependencies=['six',]\n# ///\n", want: []string{"six"}},
		"lines that end as on Windows": {code: "# /// script\r\n# dependencies = [\r\n# \"six\"\r\n# ]\r\n# ///\r\n", want: []string{"six"}},
		"tables of tools":              {code: "# /// script\n# dependencies = [\"six\"]\n# [tool.uv]\n# dependencies = 3\n# x = {{\n# ///\n", want: []string{"six"}},
		"other keys": {code: "# /// script\n# a.b = 1.5e3 # x\n# \"c\" = {x = \"}\", y = {z = []}}\n# d = [[1, true], {}, 1979-05-27T07:32:00Z]\n" +
			"# e = \"\"\"\n# two\n# lines\"\"\"\n#\n# dependencies = [\"six\"]\n# ///\n", want: []string{"six"}},
		"escapes":                   {code: "# /// script\n# dependencies = [\"\\u0073ix; python_version>\\\"3\\\"\", '''idna''']\n# ///\n", want: []string{`six; python_version>"3"`, "idna"}},
		"not closed":                {code: "# /// script\n# dependencies = [\"six\"]\nprint(1)\n# ///\n"},
		"another type":              {code: "# /// pyproject\n# dependencies = 3\n# ///\n# /// script\n# ///\n"},
		"a mark in the middle":      {code: "x = 1  # /// script\n# dependencies = 3\n# ///\n"},
		"indented, thus a comment":  {code: "if 1:\n  # /// script\n  # dependencies = 3\n  # ///\n  pass\n"},
		"no space before the marks": {code: "#/// script\n# dependencies = 3\n# ///\n"},
	} {
		got, err := core.ParseInlineMetadata(tt.code)
		if err != nil || !slices.Equal(got.Dependencies, tt.want) || got.RequiresPython != tt.needs {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestBadInlineMetadata(t *testing.T) {
	block := func(content string) string {
		return "# /// script\n# " + strings.ReplaceAll(content, "\n", "\n# ") + "\n# ///\n"
	}
	for code, want := range map[string]string{
		block("dependencies = [\"six\"]") + "\n" + block("dependencies = []"): "2 blocks",
		block("dependencies = \"six\""):                                       "dependencies is no list of strings",
		block("dependencies = [\"six\", 3]"):                                  "dependencies is no list of strings",
		block("dependencies = [\"six\" \"idna\"]"):                            "lacks a comma",
		block("dependencies = [\"six\""):                                      "is not closed",
		block("dependencies = [\"six\n\"]"):                                   "not closed on its line",
		block("dependencies = [\"\\q\"]"):                                     "escape that is none",
		block("dependencies = [\"\\ud800\"]"):                                 "escape that is none",
		block("dependencies = ["):                                             "a value is missing",
		block("dependencies ="):                                               "a value is missing",
		block("dependencies = []\ndependencies = []"):                         "twice",
		block("dependencies = [] requires-python = \"\""):                     "something follows a value",
		block("dependencies"):                                                 "has no value",
		block("= 3"):                                                          "a key is empty",
		block("x = {y = 1"):                                                   "a table is not closed",
		block("requires-python = 3.11"):                                       "requires-python is no string",
		block("requires-python = \"3.11\""):                                   "is no range of versions",
		block("x = " + strings.Repeat("[", 100)):                              "too deep",
		block("dependencies = []\n///"):                                       "has no value", // the last end counts
		block("x = '" + strings.Repeat("x", 70<<10) + "'"):                    "at most 65536",
	} {
		if got, err := core.ParseInlineMetadata(code); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200q: got %+v, %v, want %q", code, got, err, want)
		}
	}
}

// FuzzInlineMetadata: any code is read, in time that grows with its length.
func FuzzInlineMetadata(f *testing.F) {
	for _, seed := range []string{
		"dependencies = [\"six\"]", "requires-python = '>=3'\nx = {y = \"\"\"\n\"\"\"}\n", "a = \"\\\n", "dependencies = [[[", "\"\" = 1", "x={'",
	} {
		f.Add("# /// script\n# " + strings.ReplaceAll(seed, "\n", "\n# ") + "\n# ///\n")
	}
	f.Add(strings.Repeat("# /// script\n", 1000))
	f.Add(strings.Repeat("# /// script\n# ///\n\n", 1000))
	f.Fuzz(func(t *testing.T, code string) {
		got, err := core.ParseInlineMetadata(code)
		if err != nil && (core.KindOf(err) != core.ErrInvalid || len(err.Error()) > 1000 || got.Dependencies != nil) {
			t.Errorf("%q: %+v, %v", code, got, err)
		}
	})
}
