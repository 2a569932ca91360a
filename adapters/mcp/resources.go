package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// maxResource bounds what resources/read sends in one answer, bytes of the file.
const maxResource = 32 << 20

// runFiles serves the files of runs as resources.
func (s *Server) runFiles() (mcp.ResourceTemplate, server.ResourceTemplateHandlerFunc) {
	template := mcp.NewResourceTemplate("boxwright://runs/{run}/{+path}", "Files of a run",
		mcp.WithTemplateDescription("a file that a program wrote; the URIs are in the run's result"))
	return template, func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		contents, err := s.readFile(ctx, request.Params.URI)
		if err != nil {
			return nil, errors.New(err.Error()) // the sentence, without what it wraps
		}
		return []mcp.ResourceContents{contents}, nil
	}
}

func (s *Server) readFile(ctx context.Context, uri string) (mcp.ResourceContents, error) {
	if err := allow(ctx, "files of runs", true); err != nil {
		return nil, err
	}
	run, name, err := core.ParseArtifactURI(uri)
	if err != nil {
		return nil, err
	}
	file, artifact, err := s.cases.OpenFile(ctx, s.owner(ctx), run, name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if artifact.Size > maxResource {
		err := core.Errorf(core.ErrExhausted, "file %q has %s; at most %s can be read this way", name, byteCount(artifact.Size), byteCount(maxResource))
		if place := s.location(ctx, artifact); place != "" {
			err = err.WithHint("it is at %s", place)
		}
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxResource))
	if err != nil {
		return nil, core.Errorf(core.ErrInternal, "file %q cannot be read", name)
	}
	if isText(artifact.MIMEType) && utf8.Valid(data) {
		return mcp.TextResourceContents{URI: uri, MIMEType: artifact.MIMEType, Text: string(data)}, nil
	}
	return mcp.BlobResourceContents{URI: uri, MIMEType: artifact.MIMEType, Blob: base64.StdEncoding.EncodeToString(data)}, nil
}

func isText(mimeType string) bool {
	return strings.HasPrefix(mimeType, "text/") || strings.HasPrefix(mimeType, "application/json") ||
		strings.HasPrefix(mimeType, "image/svg+xml")
}
