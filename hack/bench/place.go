package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/boxwright/boxwright/hack/place"
)

// benchPlace is where boxes are made, and the bare engine there.
type benchPlace struct {
	*place.Place
	bare []string // the engine's own command that runs hello once, from nothing to nothing
	dir  string   // programs and state, which the user can read
}

// placeOf makes a place's folder in state, which is the bench's.
func placeOf(name, state string) (*benchPlace, error) {
	dir := filepath.Join(state, name)
	known, err := place.Of(name, dir, []string{image, preinstalled})
	if err != nil {
		return nil, err
	}
	p := &benchPlace{Place: known, dir: dir}
	programs := []string{"python3", "-c", hello}
	if known.Command != nil {
		p.bare = append(append([]string{}, known.Command...), append([]string{"run", "--rm", "--network", "none", image}, programs...)...)
	} else {
		p.bare = append(p.bareRunsc(), programs...)
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // another user reads it
		return nil, err
	}
	files := map[string]string{}
	built, _ := filepath.Glob(filepath.Join("bin", "*")) // the pattern is well-formed
	for _, file := range built {
		files[filepath.Base(file)] = file
	}
	if err := known.Furnish(dir, files); err != nil {
		return nil, err
	}
	config, err := json.Marshal(p.config()) // JSON is YAML too
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.configFile(), config, 0o644) //nolint:gosec // another user reads it
}

func (p *benchPlace) bareRunsc() []string {
	bare := []string{filepath.Join(p.dir, "runsc"), "--network=none"}
	if p.User != nil {
		bare = append(bare, "--rootless")
	}
	return append(bare, "do")
}

func (p *benchPlace) configFile() string { return filepath.Join(p.dir, "boxwright.yaml") }

func (p *benchPlace) config() map[string]any {
	config := p.Config()
	config["limits"] = map[string]any{"unenforced": "warn"}
	config["images"] = map[string]any{"default": image}
	config["storage"] = map[string]any{"dir": p.state()}
	config["log"] = map[string]any{"level": "warn"}
	return config
}

func (p *benchPlace) state() string { return filepath.Join(p.dir, "state") }

// program is one as the place's user runs it.
func (p *benchPlace) program(name string, args ...string) *exec.Cmd {
	cmd := p.Program(name, args...)
	cmd.Env, cmd.Dir = p.Environment(p.state()), p.dir
	return cmd
}
