package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// A param is one argument of a tool. The schema that clients see and the checks that calls meet
// are both made from it.
type param struct {
	name        string
	description string
	schema      map[string]any // without the description
	required    bool
}

// schemaOf renders the input schema of a tool.
func schemaOf(params []param) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, p := range params {
		property := map[string]any{"description": p.description}
		maps.Copy(property, p.schema)
		properties[p.name] = property
		if p.required {
			required = append(required, p.name)
		}
	}
	return mustJSON(map[string]any{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	})
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // only literals of this package come here
	}
	return raw
}

// arguments are a call's arguments, not yet typed. A null counts as left out.
type arguments map[string]json.RawMessage

// parseArguments takes the raw object apart and refuses names that the tool does not have.
func parseArguments(raw json.RawMessage, params []param) (arguments, error) {
	args := arguments{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, core.Errorf(core.ErrInvalid, "the arguments are not a JSON object")
		}
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	for _, name := range sortedKeys(args) {
		switch {
		case string(args[name]) == "null":
			delete(args, name)
		case !slices.Contains(names, name):
			return nil, core.Errorf(core.ErrInvalid, "there is no argument %q", clip(name, 60)).
				WithHint("the arguments are %s", strings.Join(names, ", "))
		}
	}
	for _, p := range params {
		if _, given := args[p.name]; p.required && !given {
			return nil, core.Errorf(core.ErrInvalid, "%s is missing", p.name).WithHint("%s: %s", p.name, p.description)
		}
	}
	return args, nil
}

// text returns a string argument; nil if it was left out.
func (a arguments) text(name string) (*string, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, wrongType(name, "text", raw)
	}
	return &s, nil
}

// seconds returns a number of seconds; a number in quotes is taken for what it says.
func (a arguments) seconds(name string) (*time.Duration, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	text := string(raw)
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		text = strings.TrimSpace(quoted)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return nil, wrongType(name, "a number of seconds", raw)
	}
	const most = 1e9 // seconds; far above any ceiling, far below the range of a Duration
	d := time.Duration(max(-most, min(most, n)) * float64(time.Second))
	return &d, nil
}

// texts returns a list of strings. One string is a list of one, unless it holds a JSON list:
// models write both.
func (a arguments) texts(name string) ([]string, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if !strings.HasPrefix(strings.TrimSpace(one), "[") {
			return []string{one}, nil
		}
		raw = json.RawMessage(one)
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return nil, wrongType(name, `a list of texts such as ["pandas"]`, a[name])
	}
	return list, nil
}

// files returns the files of a call, decoded.
func (a arguments) files(name string) ([]core.Input, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	var list []struct {
		Path     *string `json:"path"`
		Content  *string `json:"content"`
		Encoding string  `json:"encoding"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	const form = `a list such as [{"path": "in.csv", "content": "a,b\n1,2\n"}]; encoding is "text" or "base64"`
	if decoder.Decode(&list) != nil || list == nil {
		return nil, wrongType(name, form, raw)
	}
	inputs := make([]core.Input, len(list))
	for i, f := range list {
		if f.Path == nil || f.Content == nil {
			return nil, core.Errorf(core.ErrInvalid, "%s: number %d lacks its path or its content", name, i+1).WithHint("files is %s", form)
		}
		content, err := decodeContent(*f.Content, f.Encoding)
		if err != nil {
			return nil, core.Errorf(core.ErrInvalid, "%s: %q: %w", name, clip(*f.Path, 80), err).WithHint("files is %s", form)
		}
		inputs[i] = core.Input{Name: *f.Path, Content: content}
	}
	return inputs, nil
}

func decodeContent(content, encoding string) ([]byte, error) {
	switch encoding {
	case "", "text":
		return []byte(content), nil
	case "base64":
		data, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return nil, fmt.Errorf("the content is not valid base64")
		}
		return data, nil
	}
	return nil, fmt.Errorf("there is no encoding %q", clip(encoding, 30))
}

func wrongType(name, want string, raw json.RawMessage) error {
	return core.Errorf(core.ErrInvalid, "%s must be %s; %s was given", name, want, jsonKind(raw))
}

func jsonKind(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "text (" + clip(string(raw), 40) + ")"
	case '[':
		return "a list"
	case '{':
		return "an object"
	case 't', 'f':
		return "a truth value"
	default:
		return "the number " + clip(string(raw), 40)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
