// Package arch_test states the architecture and fails when an import breaks it.
package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/boxwright/boxwright/"

// layers is the whole policy: a package may import the standard library, its
// own folder, the layers named here, and the listed outside modules. In a layer
// marked apart, one folder may not import the next. The first matching prefix
// wins, so inner exceptions come first.
var layers = []struct {
	path    string
	may     []string
	outside []string
	apart   bool
}{
	{path: "core/app", may: []string{"core", "ports"}},
	{path: "core"},
	{path: "ports", may: []string{"core"}},
	{path: "proto/wire", may: []string{"core"}, outside: []string{"google.golang.org/"}},
	{path: "proto", outside: []string{"google.golang.org/", "github.com/containerd/ttrpc"}},
	{path: "plugins/sdk/daemontest", may: []string{"core", "ports", "plugins/sdk"}, outside: []string{"github.com/google/go-containerregistry"}},
	{path: "plugins/sdk", may: []string{"core", "ports", "proto", "proto/wire"}, outside: []string{"google.golang.org/", "github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "github.com/containerd/ttrpc"}},
	{path: "plugins", may: []string{"core", "ports", "plugins/sdk", "plugins/sdk/daemontest"}, outside: []string{"*"}, apart: true},
	{path: "adapters/guest", may: []string{"core", "ports", "proto", "proto/wire"}, outside: []string{"*"}},
	{path: "adapters/pluginhost", may: []string{"core", "ports", "plugins/sdk"}, outside: []string{"*"}},
	{path: "adapters/storage/sqlstore", may: []string{"core", "ports"}},
	{path: "adapters/storage", may: []string{"core", "ports", "adapters/storage/sqlstore"}, outside: []string{"*"}, apart: true},
	{path: "adapters", may: []string{"core", "ports"}, outside: []string{"*"}, apart: true},
	{path: "cmd/boxwright-agent", may: []string{"core", "proto", "proto/wire"}, outside: []string{"github.com/containerd/ttrpc", "google.golang.org/", "golang.org/x/"}},
	{path: "hack", may: []string{"*"}, outside: []string{"*"}},
	{path: "cmd", may: []string{"*"}, outside: []string{"*"}},
	{path: "e2e", may: []string{"*"}, outside: []string{"*"}},
}

// owners keep what is one package's where it belongs: the clients of engines, and the plugins that link them,
// out of the server and of everything that it is made of.
var owners = []struct {
	what string // an import's prefix
	may  []string
}{
	{what: "github.com/docker/docker", may: []string{"plugins/docker"}},
	{what: module + "plugins/docker", may: []string{"plugins/docker", "cmd/boxwright-backend-docker"}},
	{what: "github.com/containers/podman", may: []string{"plugins/podman"}},
	{what: "go.podman.io", may: []string{"plugins/podman"}},
	{what: module + "plugins/podman", may: []string{"plugins/podman", "cmd/boxwright-backend-podman"}},
	{what: "github.com/google/go-containerregistry", may: []string{"plugins", "e2e"}},
	{what: "github.com/opencontainers", may: []string{"plugins"}},
	{what: "github.com/minio", may: []string{"adapters/storage/s3"}},
	{what: "modernc.org", may: []string{"adapters/storage/sqlite"}},
	{what: "github.com/jackc", may: []string{"adapters/storage/postgres"}},
	{what: module + "adapters/storage/sqlstore", may: []string{"adapters/storage/sqlstore", "adapters/storage/sqlite", "adapters/storage/postgres"}},
	{what: module + "plugins/gvisor", may: []string{"plugins/gvisor", "cmd/boxwright-backend-gvisor"}},
}

func TestArchitecture(t *testing.T) {
	seen := make([]bool, len(layers))
	for name, imps := range imports(t) {
		if name == "." {
			continue // the module root holds only this test
		}
		i := layerOf(name)
		if i < 0 {
			t.Errorf("%s: no layer; add it to the policy", name)
			continue
		}
		seen[i] = true
		for _, imp := range imps {
			if !allowed(name, i, imp) || !owned(name, imp) {
				t.Errorf("%s must not import %s", name, imp)
			}
		}
	}
	for i, ok := range seen {
		if !ok {
			t.Errorf("layer %s matches no package; delete it", layers[i].path)
		}
	}
}

func owned(name, imp string) bool {
	for _, o := range owners {
		if under(imp, o.what) {
			return slices.ContainsFunc(o.may, func(dir string) bool { return under(name, dir) })
		}
	}
	return true
}

func layerOf(name string) int {
	for i, l := range layers {
		if under(name, l.path) {
			return i
		}
	}
	return -1
}

func allowed(name string, i int, imp string) bool {
	l := layers[i]
	if in, ok := strings.CutPrefix(imp, module); ok {
		j := layerOf(in)
		if j == i {
			return !l.apart || child(l.path, in) == child(l.path, name)
		}
		return j >= 0 && contains(l.may, layers[j].path)
	}
	if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		return true // standard library
	}
	for _, o := range l.outside {
		if o == "*" || strings.HasPrefix(imp, o) {
			return true
		}
	}
	return false
}

// child names the folder of layer that holds name: ("plugins", "plugins/docker/x") is "docker".
func child(layer, name string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, layer+"/"), "/")
	return first
}

func under(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == "*" || x == s {
			return true
		}
	}
	return false
}

// imports maps each package directory to what its files, tests included, import.
// It parses rather than asks "go list", so go test's cache sees the files it reads.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			found[dir] = append(found[dir], imp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
