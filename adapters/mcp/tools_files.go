package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// fileTools reach the files of a sandbox without running anything in it.
func (s *Server) fileTools() []tool {
	return []tool{s.listFiles(), s.readSandboxFile(), s.writeFile(), s.deleteFile()}
}

// usedSandbox is ownSandbox for a tool that makes none.
const usedSandbox = "the sandbox's id or name; left out, this client's own sandbox"

func pathParam() param {
	return textParam("path", "relative to "+core.GuestWork+", such as data/in.csv; links are not followed").mandatory()
}

// fileRequest reads what all calls on files have.
func (s *Server) fileRequest(c call) (core.FileRequest, error) {
	r := core.FileRequest{Tenant: c.owner, Client: c.client}
	var err error
	if r.Sandbox, err = c.optional("sandbox_id"); err != nil {
		return core.FileRequest{}, err
	}
	path, err := c.optional("path")
	r.Path = inWorkspace(path)
	return r, err
}

// inWorkspace makes a path relative that begins with the working directory, as programs and models write it.
func inWorkspace(path string) string {
	if path == core.GuestWork {
		return "."
	}
	return strings.TrimPrefix(path, core.GuestWork+"/")
}

func (s *Server) listFiles() tool {
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	items := map[string]any{"type": "object", "properties": map[string]any{
		"path": text("as the other tools take it"), "kind": text("file, folder, link or other"), "modified": text("RFC 3339"),
		"size":     map[string]any{"type": "integer", "description": "bytes; 0 if it is no file"},
		"not_utf8": map[string]any{"type": "boolean", "description": "the path is not UTF-8 and shown with %XX; only code in the sandbox can use it"},
	}}
	path := textParam("path", "a folder, relative to "+core.GuestWork)
	path.schema["default"] = "."
	return tool{
		name: "list_files", title: "List a sandbox's files",
		description: fmt.Sprintf("Lists what is in a folder of a sandbox: path, kind, size and time of change, by path, at most %d of them. It does not wait for what runs in the sandbox.", maxEntries),
		params:      []param{sandboxParam(usedSandbox), path, flagParam("recursive", "list what is in its folders too")},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandbox_id": text(""), "files": map[string]any{"type": "array", "items": items},
			"cut": map[string]any{"type": "boolean", "description": "there is more than is listed"},
		}},
		readOnly: true,
		handle:   s.list,
	}
}

func (s *Server) list(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r, err := s.fileRequest(c)
	if err != nil {
		return nil, err
	}
	recursive, err := c.flag("recursive")
	if err != nil {
		return nil, err
	}
	found, err := s.cases.ListFiles(ctx, r, recursive)
	if err != nil {
		return nil, err
	}
	return listingResult(found), nil
}

func (s *Server) readSandboxFile() tool {
	whole := func(name, description string, least, usual int) param {
		return param{name: name, description: description, schema: map[string]any{"type": "integer", "minimum": least, "default": usual}}
	}
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	return tool{
		name: "read_file", title: "Read a sandbox's file",
		description: `Reads a file of a sandbox, or a part of it by byte offset: read on from next_offset until it is total_bytes. UTF-8 comes as text, anything else as base64; PNG, JPEG, GIF and WebP images are shown. It does not wait for what runs in the sandbox.
Example: {"path": "out/table.csv"}`,
		params: []param{
			pathParam(), sandboxParam(usedSandbox), whole("offset", "bytes to skip", 0, 0),
			whole("limit", fmt.Sprintf("bytes to return, at most %d", maxPiece), utf8.UTFMax, usualPiece),
			{
				name: "encoding", description: "text: what is not text is replaced; base64: the exact bytes, also of images; left out, whichever fits",
				schema: map[string]any{"type": "string", "enum": []string{"text", "base64"}},
			},
		},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandbox_id": text, "path": text, "mime_type": text, "content": text,
			"encoding": map[string]any{"type": "string", "description": "of content: text or base64; image: it is shown, and content is left out"},
			"offset":   number, "next_offset": number, "total_bytes": number,
			"exact": map[string]any{"type": "boolean", "description": "false: control characters or bytes of the text are replaced, or the image is shown smaller than it is"},
		}},
		readOnly: true,
		handle:   s.read,
	}
}

func (s *Server) read(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r, err := s.fileRequest(c)
	if err != nil {
		return nil, err
	}
	encoding, err := c.optional("encoding")
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "text", "base64"}, encoding) {
		return nil, core.Errorf(core.ErrInvalid, "there is no encoding %q", clip(encoding, 30)).WithHint("the encodings are text and base64")
	}
	offset, err := c.whole("offset", 0)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, core.Errorf(core.ErrInvalid, "offset is %d; it must not be negative", offset)
	}
	limit, err := c.whole("limit", usualPiece)
	if err != nil {
		return nil, err
	}
	if limit < utf8.UTFMax || limit > maxPiece {
		return nil, core.Errorf(core.ErrInvalid, "limit is %d; it must be from %d to %d", limit, utf8.UTFMax, maxPiece)
	}
	content, err := s.cases.ReadFile(ctx, r, offset, limit, encoding == "" && offset == 0)
	if err != nil {
		return nil, err
	}
	return contentResult(r.Path, content, encoding), nil
}

func (s *Server) writeFile() tool {
	content := textParam("content", "the whole file; left out, the answer has an upload_url, where that is offered")
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	return tool{
		name: "write_file", title: "Write a file into a sandbox",
		description: `Writes a file into a sandbox, with the folders that it needs; what was there under its name is replaced. It does not wait for what runs in the sandbox. Programs read it by the same path. A big file is not sent as content: without it, a client over HTTP gets an upload_url, to which whoever has the file can send it with PUT.
Example: {"path": "data/in.csv", "content": "a,b\n1,2\n"}`,
		params: []param{
			pathParam(), content,
			{name: "encoding", description: "of content", schema: map[string]any{"type": "string", "enum": []string{"text", "base64"}, "default": "text"}},
			sandboxParam(ownSandbox),
		},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandbox_id": text, "path": text, "size": number,
			"upload_url": textSchema("for PUT, without a key"), "expires": textSchema("of upload_url, RFC 3339"), "max_size": number,
		}},
		destructive: true, idempotent: true, openWorld: true,
		handle: s.write,
	}
}

func (s *Server) write(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	r, err := s.fileRequest(c)
	if err != nil {
		return nil, err
	}
	text, err := c.text("content")
	if err != nil {
		return nil, err
	}
	if text == nil {
		return s.offerUpload(ctx, r)
	}
	encoding, err := c.optional("encoding")
	if err != nil {
		return nil, err
	}
	data, err := decodeContent(*text, encoding)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "%w", err).WithHint(`encoding is "text" or "base64"`)
	}
	session, err := s.cases.WriteFile(ctx, r, data, c.progress)
	if err != nil {
		return nil, err
	}
	return structuredResult(fmt.Sprintf("%s written to %s.", byteCount(int64(len(data))), shownName(r.Path)), map[string]any{
		"sandbox_id": session, "path": r.Path, "size": len(data),
	}), nil
}

// offerUpload answers with an address for content that does not come with the call.
func (s *Server) offerUpload(ctx context.Context, r core.FileRequest) (*mcp.CallToolResult, error) {
	if !s.hasLinks(ctx) {
		return nil, core.Errorf(core.ErrInvalid, "content is missing").WithHint("it is the whole file, as text or, with encoding, as base64; the empty text is an empty file")
	}
	session, err := s.cases.UploadTarget(ctx, r)
	if err != nil {
		return nil, err
	}
	url, most, until := s.options.Links.Upload(r.Tenant, session, r.Path)
	if url == "" {
		return nil, core.Errorf(core.ErrUnsupported, "this server gives out no addresses to upload to").WithHint("send content")
	}
	text := fmt.Sprintf("Send %s (at most %s) with HTTP's PUT, until %s, to %s", shownName(r.Path), byteCount(most), stamp(until), url)
	return structuredResult(text, map[string]any{
		"sandbox_id": session, "path": r.Path, "upload_url": url, "expires": stamp(until), "max_size": most,
	}), nil
}

func (s *Server) deleteFile() tool {
	return tool{
		name: "delete_file", title: "Delete a sandbox's file",
		description: "Deletes a file of a sandbox, or a link but not what it leads to. A folder is deleted by sandbox_exec with rm -r.",
		params:      []param{pathParam(), sandboxParam(usedSandbox)},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"sandbox_id": map[string]any{"type": "string"}, "path": map[string]any{"type": "string"}, "deleted": map[string]any{"type": "boolean"},
		}},
		destructive: true, idempotent: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			r, err := s.fileRequest(c)
			if err != nil {
				return nil, err
			}
			session, err := s.cases.DeleteFile(ctx, r)
			if err != nil {
				return nil, err
			}
			return structuredResult("The file "+shownName(r.Path)+" is deleted.", map[string]any{
				"sandbox_id": session, "path": r.Path, "deleted": true,
			}), nil
		},
	}
}
