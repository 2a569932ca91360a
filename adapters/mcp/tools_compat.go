package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// The sets of tools that an operator may choose, and what they hold. The names of the older programs' own tools
// are those of their descriptions and prompts; the rest of a set is what long runs need.
const (
	SetDefault    = "default"             // all but the names of older programs
	SetEphemeral  = "python-code-sandbox" // of python-code-sandbox-mcp
	SetMCPSandbox = "mcp-sandbox"         // of mcp-sandbox
)

func namesOf(set string) []string {
	background := []string{"get_run", "read_output", "cancel_run"}
	switch set {
	case SetEphemeral:
		return append(background, "run_python_ephemeral", "sandbox_initialize", "run_python", "sandbox_exec", "sandbox_stop", "search_pypi_packages")
	case SetMCPSandbox:
		return append(background, "create_sandbox", "list_sandboxes", "execute_python_code", "execute_terminal_command",
			"install_package_in_sandbox", "check_package_installation_status", "upload_file_to_sandbox", "sandbox_stop")
	}
	return nil
}

// tools are those of the set that was chosen.
func (s *Server) tools() []tool {
	names := namesOf(s.options.Tools)
	if names == nil {
		return s.ownTools()
	}
	return slices.DeleteFunc(append(s.ownTools(), s.compatTools()...), func(t tool) bool { return !slices.Contains(names, t.name) })
}

// ownTools are ours under our names.
func (s *Server) ownTools() []tool {
	return slices.Concat(s.runTools(), s.sandboxTools(), s.fileTools(), s.packageTools(), s.backgroundTools())
}

// compatTools are ours under the names of mcp-sandbox, with the arguments and the keys of results that it had.
func (s *Server) compatTools() []tool {
	return []tool{s.createSandbox(), s.executePython(), s.executeCommand(), s.uploadFile()}
}

func (s *Server) createSandbox() tool {
	t := s.sandboxInitialize()
	t.name = "create_sandbox"
	t.description = "Makes a sandbox that stays between calls, and returns its sandbox_id. End it with sandbox_stop when it is not needed any more."
	t.params = slices.DeleteFunc(t.params, func(p param) bool { return p.name != "name" })
	t.output = map[string]any{"type": "object", "properties": mergedWith(sandboxSchema(), map[string]any{
		"user_id": textSchema("whose it is"), "status": textSchema("created"),
	})}
	t.handle = func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
		result, err := s.initialize(ctx, c)
		return extend(result, err, func(map[string]any) map[string]any {
			return map[string]any{"user_id": s.owner(ctx), "status": "created"}
		})
	}
	return t
}

func (s *Server) executePython() tool {
	t := s.runPython()
	t.name = "execute_python_code"
	return s.asMCPSandbox(t, "code")
}

func (s *Server) executeCommand() tool {
	t := s.sandboxExec()
	t.name = "execute_terminal_command"
	return s.asMCPSandbox(t, "command")
}

// asMCPSandbox asks for a sandbox, and gives links to files as that program gave them.
func (s *Server) asMCPSandbox(t tool, argument string) tool {
	t.params = slices.DeleteFunc(t.params, func(p param) bool { return p.name != argument && p.name != "timeout_seconds" })
	t.params = append(t.params, sandboxParam("the sandbox's id or name").mandatory())
	t.description, _, _ = strings.Cut(strings.Replace(t.description, " Without sandbox_id it uses this client's own sandbox, made on first use.", "", 1), "\n")
	t.output = runOutputSchema()
	t.output["properties"] = mergedWith(t.output["properties"], map[string]any{
		"file_links": listOfTexts("where each of files is to be had: an address for a browser, a path on this machine, or a URI for resources/read"),
	})
	t.handle = func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
		result, err := s.inSandbox(ctx, c)
		return extend(result, err, func(record map[string]any) map[string]any {
			return map[string]any{"file_links": linksOf(record["files"])}
		})
	}
	return t
}

// linksOf are the best addresses of a result's files.
func linksOf(files any) []string {
	links := []string{}
	list, _ := files.([]any)
	for _, item := range list {
		file, _ := item.(map[string]any)
		for _, key := range []string{"url", "uri"} {
			if link, _ := file[key].(string); link != "" {
				links = append(links, link)
				break
			}
		}
	}
	return links
}

// extend adds keys to a structured result.
func extend(result *mcp.CallToolResult, err error, more func(map[string]any) map[string]any) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	record := map[string]any{}
	raw, err := json.Marshal(result.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "a result cannot be extended: %w", err)
	}
	result.StructuredContent = mergedWith(record, more(record))
	return result, nil
}

func mergedWith(properties any, more map[string]any) map[string]any {
	merged := map[string]any{}
	if known, ok := properties.(map[string]any); ok {
		maps.Copy(merged, known)
	}
	maps.Copy(merged, more)
	return merged
}

// resultsDir is where mcp-sandbox kept what programs read and wrote.
const resultsDir = "/app/results"

func (s *Server) uploadFile() tool {
	local := "a file of this machine, below a folder that the operator lists"
	if len(s.options.UploadFrom) == 0 {
		local = "not allowed here: send content"
	}
	folder := textParam("dest_path", "the folder to put it into, relative to "+core.GuestWork)
	folder.schema["default"] = resultsDir
	return tool{
		name: "upload_file_to_sandbox", title: "Upload a file to a sandbox",
		description: "Puts a file into a sandbox: content under file_name, or a file of this machine where the operator allows it. Programs find it in the working directory.",
		params: []param{
			sandboxParam("the sandbox's id or name").mandatory(), textParam("local_file_path", local), textParam("file_name", "its name in the sandbox"),
			textParam("content", "the whole file"),
			{name: "encoding", description: "of content", schema: map[string]any{"type": "string", "enum": []string{"text", "base64"}, "default": "text"}},
			folder,
		},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"success": map[string]any{"type": "boolean"}, "message": textSchema(""), "path": textSchema("as the other tools take it"),
		}},
		destructive: true, idempotent: true,
		handle: s.upload,
	}
}

func (s *Server) upload(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	asked := map[string]string{}
	for _, name := range []string{"sandbox_id", "local_file_path", "file_name", "content", "encoding", "dest_path"} {
		text, err := c.optional(name)
		if err != nil {
			return nil, err
		}
		asked[name] = text
	}
	r := core.FileRequest{Tenant: s.owner(ctx), Client: c.client, Sandbox: asked["sandbox_id"]}
	name, local := asked["file_name"], asked["local_file_path"]
	if name == "" && local != "" {
		name = filepath.Base(local)
	}
	r.Path = path.Join(strings.Trim(strings.TrimPrefix(strings.TrimPrefix(asked["dest_path"], resultsDir), core.GuestWork), "/"), name)
	_, hasContent := c.arguments["content"]
	switch {
	case (local != "") == hasContent:
		return nil, core.Errorf(core.ErrInvalid, "content or local_file_path is needed, and not both")
	case name == "":
		return nil, core.Errorf(core.ErrInvalid, "file_name is missing").WithHint("content needs a name in the sandbox")
	}
	var err error
	if hasContent {
		err = s.putContent(ctx, r, asked["content"], asked["encoding"])
	} else {
		err = s.putLocal(ctx, r, local)
	}
	if err != nil {
		return nil, err
	}
	message := "The file is in the sandbox as " + shownName(r.Path) + "."
	return structuredResult(message, map[string]any{"success": true, "message": message, "path": r.Path}), nil
}

func (s *Server) putContent(ctx context.Context, r core.FileRequest, text, encoding string) error {
	data, err := decodeContent(text, encoding)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "%w", err).WithHint(`encoding is "text" or "base64"`)
	}
	_, err = s.cases.WriteFile(ctx, r, data, nil)
	return err
}

// putLocal sends a file of this machine. It is opened below one of the operator's folders, out of which no link leads.
func (s *Server) putLocal(ctx context.Context, r core.FileRequest, local string) error {
	refused := core.Errorf(core.ErrDenied, "files of this machine can only be uploaded from folders that the operator lists").
		WithHint("send content, or let the operator add the folder to files.upload_from")
	if _, remote := core.PrincipalOf(ctx); remote {
		return refused // its machine is another one
	}
	for _, dir := range s.options.UploadFrom {
		below, err := filepath.Rel(dir, filepath.Clean(local))
		if err != nil || !filepath.IsAbs(local) || !filepath.IsLocal(below) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		defer root.Close()                                                   //nolint:errcheck // only read
		file, err := root.OpenFile(below, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a fifo does not hold us up
		if err != nil {
			return core.Errorf(core.ErrNotFound, "there is no file %s that can be read", shownName(local))
		}
		defer file.Close() //nolint:errcheck // only read
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return core.Errorf(core.ErrInvalid, "%s is not a file", shownName(local))
		}
		return s.cases.UploadFile(ctx, r, file)
	}
	return refused
}
