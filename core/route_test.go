package core_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

func TestRoutes(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	routes := core.Routes{
		{Image: "python:3.12*", Backend: "new"},
		{Image: "host", Backend: "gvisor"},
		{Image: "team/*", Language: core.LanguagePython, Backend: "team"},
		{Image: "team/*", Language: "bash", Backend: "never"},
	}
	for image, want := range map[string]string{
		"python:3.12": "new", "docker.io/library/python:3.12-slim": "new", "python:3.11": "", "python": "",
		"host": "gvisor", "team/tool:1": "team", "other/tool": "", "": "",
		// A digest may be that of any tag.
		"python@" + digest: "new", "python:3.11@" + digest: "new", "other/tool@" + digest: "",
	} {
		if got := routes.Backend(image, core.LanguagePython); got != want {
			t.Errorf("%q goes to %q, want %q", image, got, want)
		}
	}
	byLanguage := append(routes, core.Route{Language: core.LanguagePython, Backend: "rest"})
	for image, want := range map[string]string{"": "rest", "alpine": "rest", "python:3.12": "new"} {
		if got := byLanguage.Backend(image, core.LanguagePython); got != want {
			t.Errorf("%q goes to %q, want %q", image, got, want)
		}
	}
}

func TestRouteValidate(t *testing.T) {
	for want, route := range map[string]core.Route{
		"":                           {Image: "python:3.*", Language: core.LanguagePython, Backend: "a"},
		"names no backend":           {Image: "python"},
		"no condition":               {Backend: "a"},
		`"cobol" is not a language`:  {Language: "cobol", Backend: "a"},
		`image pattern "a*/b" has a`: {Image: "a*/b", Backend: "a"},
	} {
		err := route.Validate(core.DefaultInterpreters().Names())
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || core.KindOf(err) != core.ErrInvalid) {
			t.Errorf("%+v: got %v, want %q", route, err, want)
		}
	}
}
