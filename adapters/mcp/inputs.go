package mcp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// The arguments that several tools have.

func textParam(name, description string) param {
	return param{name: name, description: description, schema: map[string]any{"type": "string"}}
}

func flagParam(name, description string) param {
	return param{name: name, description: description, schema: map[string]any{"type": "boolean", "default": false}}
}

func (p param) mandatory() param {
	p.required = true
	p.schema = maps.Clone(p.schema)
	p.schema["minLength"] = 1
	return p
}

func dependenciesParam() param {
	return param{
		name:        "dependencies",
		description: `packages to install first, as PEP 508 requirements: ["pandas", "requests[socks]>=2,<3"]; no options, paths or links`,
		schema:      map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "default": []string{}},
	}
}

func autoInstallParam() param {
	return flagParam("auto_install", "if a module is missing, install the package that has it and run the code again from the start, up to 3 times")
}

func (s *Server) imageParam() param {
	schema := map[string]any{"type": "string"}
	allowed := shownImages(s.options.Images)
	if s.options.DefaultImage != "" {
		schema["default"] = s.options.DefaultImage
	}
	if allowed == "" {
		allowed = "the default"
	}
	return param{name: "image", description: "container image with Python; allowed: " + allowed, schema: schema}
}

// shownImages explains the patterns of images that are allowed.
func shownImages(patterns []string) string {
	shown := make([]string, len(patterns))
	for i, p := range patterns {
		if shown[i] = p; !strings.ContainsAny(p, ":*") {
			shown[i] = p + " (any tag)"
		}
	}
	return strings.Join(shown, ", ")
}

func (s *Server) timeoutParam() param {
	return param{
		name:        "timeout_seconds",
		description: fmt.Sprintf("the program is stopped after this time; above 0, at most %g; installing packages does not count", s.options.MaxTimeout.Seconds()),
		schema: map[string]any{
			"type": "number", "exclusiveMinimum": 0,
			"maximum": s.options.MaxTimeout.Seconds(), "default": s.options.Timeout.Seconds(),
		},
	}
}

func stdinParam() param {
	return textParam("stdin", "text for the program's standard input; without it input() raises EOFError")
}

func filesParam() param {
	return param{
		name:        "files",
		description: "files to put into the working directory before the program starts",
		schema: map[string]any{
			"type": "array",
			"items": map[string]any{
				"type": "object",
				"properties": map[string]any{
					"path":     map[string]any{"type": "string", "description": "relative, such as data/in.csv"},
					"content":  map[string]any{"type": "string"},
					"encoding": map[string]any{"type": "string", "enum": []string{"text", "base64"}, "default": "text"},
				},
				"required":             []string{"path", "content"},
				"additionalProperties": false,
			},
		},
	}
}

// backendParams is the choice among backends, if there is one.
func (s *Server) backendParams() []param {
	if len(s.options.Backends) == 0 {
		return nil
	}
	return []param{{
		name:        "backend",
		description: "where the program runs; left out, the operator's choice",
		schema:      map[string]any{"type": "string", "enum": s.options.Backends},
	}}
}

// backgroundParams let a run outlive its call.
func backgroundParams() []param {
	return []param{
		flagParam("background", "answer as soon as the program runs; get_run tells how it ends"),
		flagParam("open_stdin", "keep the program's standard input open after stdin: send_input sends more; it needs background"),
	}
}

func sandboxParam(whose string) param {
	return param{name: "sandbox_id", alias: "container_id", description: whose, schema: map[string]any{"type": "string"}}
}

const ownSandbox = "the sandbox's id or name; left out, this client's own sandbox, which is made on first use"

// runRequest reads the arguments of a call that runs something. Those that the tool does not have are left out.
func (s *Server) runRequest(c call) (core.Request, error) {
	r := core.Request{Tenant: c.owner, Client: c.client}
	var err error
	texts := map[string]*string{
		"code": &r.Code, "language": &r.Language, "command": &r.Command, "cwd": &r.Dir, "image": &r.Image, "backend": &r.Backend,
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if *texts[name], err = c.optional(name); err != nil {
			return core.Request{}, err
		}
	}
	if r.Dependencies, err = c.texts("dependencies"); err != nil {
		return core.Request{}, err
	}
	if r.Env, err = c.pairs("env"); err != nil {
		return core.Request{}, err
	}
	if r.Timeout, err = c.seconds("timeout_seconds"); err != nil {
		return core.Request{}, err
	}
	if r.Stdin, err = c.text("stdin"); err != nil {
		return core.Request{}, err
	}
	if r.Background, err = c.flag("background"); err != nil {
		return core.Request{}, err
	}
	if r.OpenStdin, err = c.flag("open_stdin"); err != nil {
		return core.Request{}, err
	}
	if r.AutoInstall, err = c.flag("auto_install"); err != nil {
		return core.Request{}, err
	}
	if r.OpenStdin && !r.Background {
		return core.Request{}, core.Errorf(core.ErrInvalid, "open_stdin needs background, as more input can only come in later calls")
	}
	r.Dir = inWorkspace(r.Dir)
	r.Files, err = c.files("files")
	return r, err
}
