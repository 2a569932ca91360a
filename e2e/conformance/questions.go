package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// question is something that a tool or a prompt asks its client for before it answers. Clients of earlier revisions are
// sent it as a request; later ones get it as a result, and ask again with the answer.
type question struct {
	id      string
	request mcp.InputRequest
}

// asked makes a question to the user, for an object of these properties.
func asked(id, message string, properties map[string]any, required ...string) question {
	return question{id, mcp.NewElicitationInputRequest(mcp.ElicitationParams{
		Message: message, RequestedSchema: map[string]any{"type": "object", "properties": properties, "required": append([]string{}, required...)},
	})}
}

// sampled makes a question to the client's model.
func sampled(id, prompt string, tokens int) question {
	return question{id, mcp.NewSamplingInputRequest(mcp.CreateMessageParams{
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(prompt)}}, MaxTokens: tokens,
	})}
}

func (q question) isAnswered(by mcp.InputResponses) bool {
	switch q.request.Method {
	case mcp.MethodElicitationCreate:
		return server.ElicitationResponse(by, q.id) != nil
	case mcp.MethodSamplingCreateMessage:
		return server.SamplingResponse(by, q.id) != nil
	default:
		return server.RootsResponse(by, q.id) != nil
	}
}

// put asks the questions, with what the client is to send along with the answers.
func put(state string, questions ...question) *server.InputRequestBuilder {
	b := server.NewInputRequestBuilder(state)
	for _, q := range questions {
		switch {
		case q.request.Elicitation != nil:
			b.Elicit(q.id, *q.request.Elicitation)
		case q.request.Sampling != nil:
			b.Sample(q.id, *q.request.Sampling)
		default:
			b.Roots(q.id)
		}
	}
	return b
}

// asking is a tool that asks until all is answered. A state other than its own has been tampered with.
func asking(state string, questions ...question) server.ToolHandlerFunc {
	return func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if given := request.Params.RequestState; given != "" && given != state {
			return nil, errors.New("the state is not the one that was sent")
		}
		for _, q := range questions {
			if !q.isAnswered(request.Params.InputResponses) {
				return put(state, questions...).ToolResult(), nil
			}
		}
		return mcp.NewToolResultText("state-ok: " + said(request.Params.InputResponses, questions)), nil
	}
}

// said is the answers as text.
func said(by mcp.InputResponses, questions []question) string {
	var text []string
	for _, q := range questions {
		if r := server.ElicitationResponse(by, q.id); r != nil {
			text = append(text, fmt.Sprintf("User response: action=%s, content=%v", r.Action, r.Content))
		}
		if r := server.SamplingResponse(by, q.id); r != nil {
			text = append(text, fmt.Sprintf("LLM response: %v", r.Content))
		}
		if r := server.RootsResponse(by, q.id); r != nil {
			text = append(text, fmt.Sprintf("roots: %v", r.Roots))
		}
	}
	return strings.Join(text, ", ")
}

// property is a schema of one.
func property(kind string, more map[string]any) map[string]any {
	schema := map[string]any{"type": kind}
	maps.Copy(schema, more)
	return schema
}

func addQuestions(s *server.MCPServer) {
	const state = "as it was sent"
	plain := property("string", nil)
	name := asked("user_name", "What is your name?", map[string]any{"name": plain}, "name")
	confirm := asked("confirm", "Please confirm", map[string]any{"ok": property("boolean", nil)}, "ok")
	capital := sampled("capital_question", "What is the capital of France?", 100)
	roots := question{"client_roots", mcp.NewRootsInputRequest()}
	for tool, handle := range map[string]server.ToolHandlerFunc{
		"test_input_required_result_elicitation":     asking("", name),
		"test_input_required_result_sampling":        asking("", capital),
		"test_input_required_result_list_roots":      asking("", roots),
		"test_input_required_result_request_state":   asking(state, confirm),
		"test_input_required_result_tampered_state":  asking(state, confirm),
		"test_input_required_result_multiple_inputs": asking(state, name, sampled("greeting", "Generate a greeting", 50), roots),
		"test_input_required_result_multi_round":     inRounds,
		"test_input_required_result_capabilities":    whatTheClientCan(name, capital),
		"test_missing_capability":                    needsSampling(capital),
		"test_streaming_elicitation":                 asking("", name),
		"test_elicitation_sep1034_defaults":          asking("", asked("defaults", "Provide your information", defaults())),
		"test_elicitation_sep1330_enums":             asking("", asked("enums", "Select options", enums())),
	} {
		addTool(s, tool, handle)
	}
	s.AddTool(mcp.NewTool("test_sampling", mcp.WithDescription("asks the model"), mcp.WithString("prompt", mcp.Required())),
		func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return asking("", sampled("prompt", request.GetString("prompt", ""), 100))(ctx, request)
		})
	s.AddTool(mcp.NewTool("test_elicitation", mcp.WithDescription("asks the user"), mcp.WithString("message", mcp.Required())),
		func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return asking("", asked("user", request.GetString("message", ""), map[string]any{"username": plain, "email": plain}, "username", "email"))(ctx, request)
		})
	s.AddPrompt(mcp.NewPrompt("test_input_required_result_prompt", mcp.WithPromptDescription("asks before it answers")),
		func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			q := asked("user_context", "What context should the prompt use?", map[string]any{"context": plain}, "context")
			if !q.isAnswered(request.Params.InputResponses) {
				return put("", q).PromptResult(), nil
			}
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("in context"))}}, nil
		})
}

// inRounds asks one thing after the other.
func inRounds(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	first := asked("step1", "Step 1: What is your name?", map[string]any{"name": property("string", nil)}, "name")
	second := asked("step2", "Step 2: What is your favorite color?", map[string]any{"color": property("string", nil)}, "color")
	if request.Params.RequestState == "" || request.Params.RequestState == "round 1" && !first.isAnswered(request.Params.InputResponses) {
		return put("round 1", first).ToolResult(), nil
	}
	if request.Params.RequestState == "round 1" {
		return put("round 2", second).ToolResult(), nil
	}
	return asking("round 2", second)(ctx, request)
}

// whatTheClientCan asks only what the client says that it can answer.
func whatTheClientCan(user, model question) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var questions []question
		can := declared(ctx)
		if can.Elicitation != nil {
			questions = append(questions, user)
		}
		if can.Sampling != nil {
			questions = append(questions, model)
		}
		return asking("", questions...)(ctx, request)
	}
}

// needsSampling refuses clients that cannot; the library lets it say so only by an error of its own.
func needsSampling(model question) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if declared(ctx).Sampling == nil {
			return nil, errors.New("this client cannot sample")
		}
		return asking("", model)(ctx, request)
	}
}

// declared is what the client says with its request that it can do; nothing, in earlier revisions.
func declared(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	return mcp.ClientCapabilities{}
}

func defaults() map[string]any {
	return map[string]any{
		"name":     property("string", map[string]any{"default": "John Doe"}),
		"age":      property("integer", map[string]any{"default": 30}),
		"score":    property("number", map[string]any{"default": 95.5}),
		"status":   property("string", map[string]any{"default": "active", "enum": []string{"active", "inactive", "pending"}}),
		"verified": property("boolean", map[string]any{"default": true}),
	}
}

func enums() map[string]any {
	titled := []map[string]string{{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}}
	values := []string{"option1", "option2", "option3"}
	return map[string]any{
		"untitledSingle": property("string", map[string]any{"enum": values}),
		"titledSingle":   property("string", map[string]any{"oneOf": titled}),
		"legacyEnum":     property("string", map[string]any{"enum": values, "enumNames": []string{"Option One", "Option Two", "Option Three"}}),
		"untitledMulti":  property("array", map[string]any{"items": property("string", map[string]any{"enum": values})}),
		"titledMulti":    property("array", map[string]any{"items": map[string]any{"anyOf": titled}}),
	}
}
