package installer

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// fakeGuest plays a box by a script: for the words of a command, what it prints and how it ends.
type fakeGuest struct {
	execution.Guest // what is not scripted panics
	has             map[string]string
	exits           map[string]core.Exit
	prints          map[string]string
	reads           map[string]string // files that programs of the box wrote, besides a lock and a report of six
	dead            error

	mu    sync.Mutex
	files map[string]string
	runs  []core.RunSpec
}

func (g *fakeGuest) WriteFile(_ context.Context, path string, r io.Reader) error {
	content, err := io.ReadAll(r)
	if g.files == nil {
		g.files = map[string]string{}
	}
	g.files[path] = string(content)
	return err
}

const sixHash = "4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274"

func (g *fakeGuest) ReadFile(_ context.Context, path string, w io.Writer, limit int64) (int64, error) {
	text, scripted := g.reads[path]
	switch {
	case scripted:
	case path == lockFile:
		text = "six==1.17.0 \\\n    --hash=sha256:" + sixHash + "\n"
	case path == reportFile:
		text = `{"install": [{"metadata": {"name": "six", "version": "1.17.0"}, "download_info": {"archive_info": {"hashes": {"sha256": "` + sixHash + `"}}}}]}`
	}
	if text == "" {
		return 0, core.Errorf(core.ErrNotFound, "there is no %s", path)
	}
	if int64(len(text)) > limit {
		return 0, core.Errorf(core.ErrExhausted, "%s is too long", path)
	}
	n, err := io.WriteString(w, text)
	return int64(n), err
}

func (g *fakeGuest) Run(ctx context.Context, spec core.RunSpec, sink func(core.Stream, []byte)) (core.Exit, error) {
	g.mu.Lock()
	g.runs = append(g.runs, spec)
	g.mu.Unlock()
	if g.dead != nil {
		return core.Exit{}, g.dead
	}
	if ctx.Err() != nil {
		return core.Exit{Code: 137, Signal: "SIGKILL", Cancelled: true}, nil
	}
	line := strings.Join(spec.Argv, " ")
	if reason, missing := g.has[spec.Argv[0]]; missing {
		return core.Exit{}, core.Errorf(core.ErrUnsupported, "%s", reason)
	}
	var exit core.Exit
	for words, scripted := range g.exits {
		if strings.Contains(line, words) {
			exit = scripted
		}
	}
	for words, text := range g.prints {
		if strings.Contains(line, words) {
			for piece := range strings.SplitAfterSeq(text, "e") { // cut anywhere, as pipes do
				if sink != nil {
					sink(core.Stderr, []byte(piece))
				}
			}
			exit.Stderr = core.Output{Head: []byte(text), Total: int64(len(text))}
		}
	}
	return exit, nil
}

// command returns the first command that holds the words.
func (g *fakeGuest) command(words string) (core.RunSpec, bool) {
	for _, spec := range g.runs {
		if strings.Contains(strings.Join(spec.Argv, " "), words) {
			return spec, true
		}
	}
	return core.RunSpec{}, false
}

// missing is a box without the programs.
func missing(programs ...string) map[string]string {
	has := map[string]string{}
	for _, program := range programs {
		has[program] = "the image has no " + program
	}
	return has
}
