package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// makePlugin runs "plugin new" and returns the module's folder.
func makePlugin(t *testing.T, name string, more ...string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "module")
	c := command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs(append([]string{"plugin", "new", name, "--dir", folder, "--replace", "../..", "--image", core.ImageHost}, more...))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden(t, "new.txt", strings.ReplaceAll(out.String(), folder, "DIR"))
	return folder
}

// inModule runs the go command in a module, with what the machine has of other modules.
func inModule(t *testing.T, folder string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), append(env, "GOFLAGS=-mod=mod", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOWORK=off", "CGO_ENABLED=0")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestNewCompilesAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a module")
	}
	folder := makePlugin(t, "mine")
	plugin := filepath.Join(folder, "boxwright-backend-mine")
	inModule(t, folder, nil, "build", "-o", plugin, ".")
	inModule(t, folder, nil, "vet", "./...")
	_, code, err := verify(t.Context(), plugin, "--agents", fakeAgents(t))
	if code != exitNotVerified || err == nil || !strings.Contains(err.Error(), "Info of the backend mine is not written yet") {
		t.Errorf("verifying it ends with %d, %v", code, err)
	}
}

// fillings are what the test puts into the marked places: the example's backend.
func fillings() map[string]string {
	return map[string]string{
		"settings":     "\tState string `json:\"state\"`",
		"fields":       "\tinner execution.Backend",
		"open":         "\tinner, err := open(ctx, cfg)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tb.inner = inner",
		"Info":         "\treturn b.inner.Info(ctx)",
		"EnsureImage":  "\treturn b.inner.EnsureImage(ctx, ref, policy, progress)",
		"Create":       "\treturn b.inner.Create(ctx, spec)",
		"Dial":         "\treturn b.inner.Dial(ctx, box)",
		"List":         "\treturn b.inner.List(ctx, instance)",
		"Destroy":      "\treturn b.inner.Destroy(ctx, box)",
		"EnsureVolume": "\treturn b.inner.EnsureVolume(ctx, volume)",
		"RemoveVolume": "\treturn b.inner.RemoveVolume(ctx, name)",
	}
}

// fill puts them there, and the example's sources beside them.
func fill(t *testing.T, folder string) {
	t.Helper()
	path := filepath.Join(folder, "backend.go")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for place, code := range fillings() {
		marked := regexp.MustCompile(`(?s)\t// FILL IN ` + place + `\b.*?\t// END\n`)
		if len(marked.FindAllString(text, -1)) != 1 {
			t.Errorf("there is not one place %q", place)
		}
		text = marked.ReplaceAllLiteralString(text, code+"\n")
	}
	if strings.Contains(text, "// FILL IN ") {
		t.Error("a place is not filled")
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{"main.go": "open.go", "backend.go": "engine.go", "box.go": "box.go", "plan.go": "plan.go"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "plugins", "example", file))
		if err != nil {
			t.Fatal(err)
		}
		source := regexp.MustCompile(`(?m)^func main\(\).*$`).ReplaceAllString(string(raw), "")
		source = strings.ReplaceAll(source, "var settings Settings", "var settings struct{ State string `json:\"state\"` }")
		source = strings.ReplaceAll(source, "os.Geteuid() == 0", "os.Geteuid() < 0") // the test may be root's
		source = regexp.MustCompile(`(?s)// Settings is the plugin's.*?\n}\n`).ReplaceAllString(source, "")
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewPassesOnceFilled: with the example's code in the marked places, the suite passes, from Go and
// from the command line.
func TestNewPassesOnceFilled(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	folder, agents := makePlugin(t, "mine"), realAgents(t)
	fill(t, folder)
	plugin := filepath.Join(folder, "boxwright-backend-mine")
	inModule(t, folder, nil, "build", "-o", plugin, ".")
	state := `{"state": "` + t.TempDir() + `"}`
	out, code, err := verify(t.Context(), plugin, "--agents", agents, "--settings", state, "--missing-image", "not/there:1")
	if code != 0 {
		t.Errorf("verifying it ends with %d, %v\n%s", code, err, out)
	}
	out = inModule(t, folder, []string{"BOXWRIGHT_BIN=" + agents, "BOXWRIGHT_REQUIRE=", "HOME=" + t.TempDir(), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOCACHE=" + goEnv(t, "GOCACHE")}, "test", "-count=1", "-v", "./...")
	if !strings.Contains(out, "--- PASS: TestPromises/create/inside") {
		t.Errorf("its own test does not look inside a box:\n%s", out)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestNewRefuses(t *testing.T) {
	taken := t.TempDir()
	for want, args := range map[string][]string{
		"is not a name of a backend": {"../x"},
		"exists already":             {"mine", "--replace", "../..", "--dir", taken},
		"cannot be made":             {"mine", "--replace", "../..", "--dir", filepath.Join(taken, "not", "there")},
		"is not of a release":        {"mine"},
		"it has no go.mod":           {"mine", "--replace", taken},
		"needs the name of one":      {},
	} {
		c := command()
		c.SetArgs(append([]string{"plugin", "new"}, args...))
		err := c.ExecuteContext(t.Context())
		if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
