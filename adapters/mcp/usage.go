package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// usageURI is the resource that tells callers how much of what they may have they use.
const usageURI = "boxwright://usage"

// meterResult is how much of one quota the caller uses.
type meterResult struct {
	Quota core.Quota `json:"quota"`
	Used  int64      `json:"used"`
	Limit *int64     `json:"limit"` // null: none
	Free  string     `json:"free,omitempty"`
}

func (s *Server) usage() (mcp.Resource, server.ResourceHandlerFunc) {
	resource := mcp.NewResource(usageURI, "Usage", mcp.WithMIMEType("application/json"), mcp.WithResourceDescription(
		"what you use of each quota: boxes and runs at once, memory and files in bytes, processor time in seconds, calls in the last minute; free is when some of it is there again"))
	return resource, func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, err := s.usageText(ctx)
		if err != nil {
			return nil, errors.New(err.Error()) // the sentence, without what it wraps
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: usageURI, MIMEType: "application/json", Text: text}}, nil
	}
}

func (s *Server) usageText(ctx context.Context) (string, error) {
	if err := allow(ctx, "your usage", true); err != nil {
		return "", err
	}
	meters, err := s.cases.Usage(ctx, s.owner(ctx))
	if err != nil {
		return "", err
	}
	results := make([]meterResult, len(meters))
	for i, m := range meters {
		results[i] = meterResult{Quota: m.Quota, Used: m.Used, Free: stamp(m.Free)}
		if m.Limit > 0 {
			results[i].Limit = &m.Limit
		}
	}
	text, err := json.MarshalIndent(results, "", "  ")
	return string(text), err
}
