package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestVariablesAreUnambiguous(t *testing.T) {
	seen := map[string]string{}
	keys := newSchema()
	for _, k := range keys {
		variable := k.variable()
		if other, twice := seen[variable]; twice {
			t.Errorf("%s is the variable of %s and of %s", variable, other, k.name)
		}
		seen[variable] = k.name
		if isReserved(variable) {
			t.Errorf("%s, the variable of %s, is reserved", variable, k.name)
		}
		name := strings.Replace(k.name, anyName, "my-engine", 1)
		found, ok := keys.findVariable(strings.Replace(variable, anyName, "MY_ENGINE", 1))
		if k.isText() && (!ok || found.name != name) {
			t.Errorf("%s: its variable leads to %q", name, found.name)
		}
	}
}

func TestEveryKeyIsFound(t *testing.T) {
	keys := newSchema()
	for _, k := range keys {
		name := strings.Replace(k.name, anyName, "docker", 1)
		if found, ok := keys.find(name); !ok || found.form != k.form || found.name != name {
			t.Errorf("%s is found as %+v", name, found)
		}
		if _, ok := keys.find(name + "x"); ok {
			t.Errorf("%sx is found", name)
		}
	}
}

// Keys are matched line by line on purpose: what a person searches for must be there.
func TestFullConfigNamesEveryKeyOnce(t *testing.T) {
	text, err := os.ReadFile("../../configs/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	counts, sections := map[string]int{}, []string{}
	entry := regexp.MustCompile(`^( *)([a-z0-9_]+):`)
	for line := range strings.Lines(string(text)) {
		m := entry.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		sections = append(sections[:len(m[1])/2], m[2])
		counts[strings.Join(sections, ".")]++
	}
	for _, k := range newSchema() {
		name := k.name
		if table, own, some := strings.Cut(name, "."+anyName+"."); some {
			name = table
			if !strings.Contains(string(text), "#     "+own+":") {
				t.Errorf("%s is not in the example", k.name)
			}
		}
		if counts[name] != 1 {
			t.Errorf("%s is there %d times", name, counts[name])
		}
	}
}

func TestSuggest(t *testing.T) {
	keys := newSchema()
	for name, want := range map[string]string{
		"limits.memroy":          "limits.memory",
		"limit.memory":           "limits.memory",
		"memory":                 "limits.memory",
		"limts":                  "limits",
		"backnd":                 "backend",
		"backends.docker.pth":    "backends.docker.path",
		"dependencies.index-url": "dependencies.index_url",
		"completely.different":   "",
	} {
		if got := keys.nearest(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
