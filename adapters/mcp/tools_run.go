package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// runTools run programs: once, or in a sandbox that stays.
func (s *Server) runTools() []tool {
	return []tool{s.runPythonEphemeral(), s.runPython(), s.runCode(), s.sandboxExec()}
}

// runPythonEphemeral runs a program once.
func (s *Server) runPythonEphemeral() tool {
	code := textParam("code", "the Python program, complete; it runs as __main__, and top-level await works").mandatory()
	return tool{
		name: "run_python_ephemeral", title: "Run Python once", description: s.onceDescription(),
		params: slices.Concat([]param{code, dependenciesParam(), autoInstallParam(), s.imageParam(), s.timeoutParam(), stdinParam(), filesParam()},
			backgroundParams(), s.backendParams()),
		output: runOutputSchema(), openWorld: true,
		handle: s.once,
	}
}

func (s *Server) once(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r, err := s.runRequest(c)
	if err != nil {
		return nil, err
	}
	record, err := s.cases.RunOnce(ctx, r, c.progress)
	return s.answer(ctx, record, err)
}

func (s *Server) answer(ctx context.Context, record core.Record, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	record.Files = slices.Clone(record.Files)
	for i, f := range record.Files {
		record.Files[i].Location = s.location(ctx, f)
	}
	archive := ""
	if len(record.Files) > 1 && s.hasLinks(ctx) {
		archive = s.options.Links.Archive(record.RunID)
	}
	record.Hint = s.inSet(record.Hint)
	return toolResult(record, archive), nil
}

// hasLinks reports whether the caller is one over HTTP who may get links.
func (s *Server) hasLinks(ctx context.Context) bool {
	_, remote := core.PrincipalOf(ctx)
	return remote && s.options.Links != nil
}

// location is where the caller finds a file: on this machine or, if it called over HTTP, by a link.
func (s *Server) location(ctx context.Context, f core.Artifact) string {
	if _, remote := core.PrincipalOf(ctx); !remote {
		return f.Location
	}
	if !s.hasLinks(ctx) {
		return ""
	}
	return s.options.Links.File(f)
}

func (s *Server) onceDescription() string {
	return fmt.Sprintf(`Runs a complete Python program in a fresh, isolated box and returns what it printed, its exit code and the files it wrote. Values that are not printed are not shown: use print(). Use it for calculations, data work and plots. Nothing is kept between calls: send the whole program each time.
- The working directory is %s. Files written there (also in subfolders) come back; PNG, JPEG, GIF and WebP images are shown. Matplotlib figures that are shown or left open come back as PNG.
- Name third-party packages in dependencies, or in the code by PEP 723 metadata or a line "%%pip install x"; they are installed before the program starts. The program itself has no network.
- Limits: %g s unless timeout_seconds says otherwise, %s of memory. Long output is cut in the middle; the whole of it comes back as a file.
- A program that fails is a normal result: read exit_code and stderr.
Example: {"code": "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).describe())", "dependencies": ["pandas"]}`,
		core.GuestWork, s.options.Timeout.Seconds(), core.FormatBytes(s.options.Memory))
}

// runPython runs a cell in a session.
func (s *Server) runPython() tool {
	code := textParam("code", "Python code; the value of a last expression is shown, and await works").mandatory()
	return tool{
		name: "run_python", title: "Run Python in a sandbox",
		description: fmt.Sprintf(`Runs Python code in a sandbox that stays between calls, like a cell of a notebook: variables, imports, functions, files and the working directory are still there in the next call, and the value of the last expression is shown. Without sandbox_id it uses this client's own sandbox, made on first use.
- After an exception, sys.exit or a time limit the variables are still there; if the interpreter itself died, a warning says that they are gone.
- Files written in %s come back; images and Matplotlib figures are shown.
- Packages named in dependencies, or in a line "%%pip install x", are added to the sandbox before the code runs. The code has no network.
- A sandbox that is not used for a while ends; the error session_expired says so.
Example: {"code": "x = 20\nx + 1"}`, core.GuestWork),
		params: slices.Concat([]param{code, sandboxParam(ownSandbox), dependenciesParam(), autoInstallParam(), s.timeoutParam(), stdinParam(), filesParam()}, backgroundParams()),
		output: runOutputSchema(), openWorld: true,
		handle: s.inSandbox,
	}
}

func (s *Server) inSandbox(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r, err := s.runRequest(c)
	if err != nil {
		return nil, err
	}
	sandbox, err := c.optional("sandbox_id")
	if err != nil {
		return nil, err
	}
	record, err := s.cases.RunInSession(ctx, sandbox, r, c.progress)
	return s.answer(ctx, record, err)
}

// runCode runs a program in any language, once or in a session: one tool, so that a model has fewer to choose from.
func (s *Server) runCode() tool {
	language := param{
		name: "language", required: true, description: "the language of the code",
		schema: map[string]any{"type": "string", "enum": s.options.Languages},
	}
	code := textParam("code", "the program, complete").mandatory()
	names := make([]string, len(s.options.Languages))
	for i, l := range s.options.Languages {
		names[i] = string(l)
	}
	return tool{
		name: "run_code", title: "Run code",
		description: fmt.Sprintf(`Runs a program in one of these languages: %s. Without sandbox_id it runs once, in a fresh box; with it, in that sandbox, whose files it shares. In a sandbox, bash keeps its variables, functions and working directory between calls, and python is the same as run_python.
The image must have the language's interpreter. As in the other tools, files written to the working directory come back, there is no network, and a program that fails is a normal result.
Example: {"language": "bash", "code": "for i in 1 2 3; do echo $i; done"}`, strings.Join(names, ", ")),
		params: slices.Concat([]param{
			language, code, sandboxParam("a sandbox's id or name; left out, a fresh box"), dependenciesParam(),
			s.imageParam(), s.timeoutParam(), stdinParam(), filesParam(),
		}, backgroundParams(), s.backendParams()),
		output: runOutputSchema(), openWorld: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			sandbox, err := c.optional("sandbox_id")
			if err != nil {
				return nil, err
			}
			if sandbox == "" {
				return s.once(ctx, c)
			}
			for _, settled := range []string{"image", "backend"} {
				if _, given := c.arguments[settled]; given {
					return nil, core.Errorf(core.ErrInvalid, "%s cannot be chosen for a sandbox that exists", settled).
						WithHint("leave it out, or leave sandbox_id out for a fresh box")
				}
			}
			return s.inSandbox(ctx, c)
		},
	}
}

// sandboxExec runs a line of the shell in a session.
func (s *Server) sandboxExec() tool {
	command := textParam("command", "a line for /bin/sh; pipes, quotes and here-documents work").mandatory()
	env := param{
		name: "env", description: "environment variables for this command",
		schema: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
	}
	return tool{
		name: "sandbox_exec", title: "Run a shell command in a sandbox",
		description: `Runs a command with /bin/sh in a sandbox and returns its output and exit code. Each call is a shell of its own: variables and cd do not stay, files do; use run_code with bash to keep them. What a command leaves running in the background (with &) goes on, until the sandbox ends.
Example: {"command": "ls -l | head -5"}`,
		params: slices.Concat([]param{
			command, sandboxParam(ownSandbox), textParam("cwd", "working directory, relative to "+core.GuestWork), env,
			s.timeoutParam(), stdinParam(),
		}, backgroundParams()),
		output: runOutputSchema(), openWorld: true,
		handle: s.inSandbox,
	}
}
