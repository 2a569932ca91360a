package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	adapter "github.com/boxwright/boxwright/adapters/mcp"
)

const (
	image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	audio = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// addTool adds a tool without arguments.
func addTool(s *server.MCPServer, name string, handle server.ToolHandlerFunc) {
	s.AddTool(mcp.NewTool(name, mcp.WithDescription("what the scenarios of "+name+" call")), handle)
}

// addContents adds the tools that answer with each kind of content.
func addContents(s *server.MCPServer) {
	text := mcp.NewTextContent("This is a simple text response for testing.")
	picture, sound := mcp.NewImageContent(image, "image/png"), mcp.NewAudioContent(audio, "audio/wav")
	embedded := mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."})
	for name, contents := range map[string][]mcp.Content{
		"test_simple_text":            {text},
		"test_image_content":          {picture},
		"test_audio_content":          {sound},
		"test_embedded_resource":      {embedded},
		"test_multiple_content_types": {text, picture, embedded},
	} {
		addTool(s, name, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: contents}, nil
		})
	}
	addTool(s, "test_error_handling", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
	})
}

// noticePace is the pause between two notices, as the suite wants it.
const noticePace = 50 * time.Millisecond

// addNotices adds the tools that tell something before they answer, with Boxwright's pause between the two.
func addNotices(s *server.MCPServer) {
	log := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if i > 0 {
				time.Sleep(noticePace)
			}
			if err := s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "fixture", line)); err != nil {
				return nil, err
			}
		}
		time.Sleep(adapter.LastNotice)
		return mcp.NewToolResultText("logged"), nil
	}
	addTool(s, "test_tool_with_logging", log)
	addTool(s, "test_logging_tool", log)
	addTool(s, "test_tool_with_progress", func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("done"), tellProgress(ctx, s, request.Params.Meta)
	})
}

func tellProgress(ctx context.Context, s *server.MCPServer, meta *mcp.Meta) error {
	if meta == nil || meta.ProgressToken == nil {
		return nil
	}
	for i, percent := range []int{0, 50, 100} {
		if i > 0 {
			time.Sleep(noticePace)
		}
		params := map[string]any{"progressToken": meta.ProgressToken, "progress": percent, "total": 100}
		if err := s.SendNotificationToClient(ctx, "notifications/progress", params); err != nil {
			return err
		}
	}
	time.Sleep(adapter.LastNotice)
	return nil
}

// addChanges adds the tools that change what there is, so that clients are told.
func addChanges(s *server.MCPServer) {
	addTool(s, "test_trigger_tool_change", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		addTool(s, "test_passing", nil)
		s.DeleteTools("test_passing")
		return mcp.NewToolResultText("changed"), nil
	})
	addTool(s, "test_trigger_prompt_change", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddPrompt(mcp.NewPrompt("test_passing", mcp.WithPromptDescription("is about to go")), nil)
		s.DeletePrompts("test_passing")
		return mcp.NewToolResultText("changed"), nil
	})
}

// addSchemas adds tools for what their schemas say.
func addSchemas(s *server.MCPServer) {
	answer := func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(request.GetString("region", "")), nil
	}
	for name, schema := range map[string]string{
		"json_schema_2020_12_tool": `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
			"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
				"phone":{"type":"string"},"email":{"type":"string"}},
			"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
			"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
			"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
		"test_parameter_in_header": `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`,
	} {
		s.AddTool(mcp.NewToolWithRawSchema(name, "what the scenarios of schemas look at", json.RawMessage(schema)), answer)
	}
}

func addResources(s *server.MCPServer) {
	text := mcp.TextResourceContents{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."}
	binary := mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: image}
	for uri, contents := range map[string]mcp.ResourceContents{text.URI: text, binary.URI: binary} {
		s.AddResource(mcp.NewResource(uri, strings.TrimPrefix(uri, "test://"), mcp.WithResourceDescription("a static resource")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{contents}, nil
			})
	}
	s.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template", mcp.WithTemplateDescription("a template")),
		func(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.Split(request.Params.URI, "/")[3]
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: request.Params.URI, MIMEType: "application/json",
				Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":%q}`, id, "Data for ID: "+id),
			}}, nil
		})
}

// addPrompts adds the prompts; each is what it says, made of its arguments.
func addPrompts(s *server.MCPServer) {
	text := func(text string) []mcp.Content { return []mcp.Content{mcp.NewTextContent(text)} }
	for name, contents := range map[string]func(arguments map[string]string) []mcp.Content{
		"test_simple_prompt": func(map[string]string) []mcp.Content { return text("This is a simple prompt for testing.") },
		"test_prompt_with_arguments": func(given map[string]string) []mcp.Content {
			return text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", given["arg1"], given["arg2"]))
		},
		"test_prompt_with_embedded_resource": func(given map[string]string) []mcp.Content {
			return append([]mcp.Content{mcp.NewEmbeddedResource(mcp.TextResourceContents{
				URI: given["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing.",
			})}, text("Please process the embedded resource above.")...)
		},
		"test_prompt_with_image": func(map[string]string) []mcp.Content {
			return append([]mcp.Content{mcp.NewImageContent(image, "image/png")}, text("Please analyze the image above.")...)
		},
	} {
		s.AddPrompt(mcp.NewPrompt(name, mcp.WithPromptDescription("what the scenarios of "+name+" get")),
			func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				result := &mcp.GetPromptResult{}
				for _, content := range contents(request.Params.Arguments) {
					result.Messages = append(result.Messages, mcp.NewPromptMessage(mcp.RoleUser, content))
				}
				return result, nil
			})
	}
}
