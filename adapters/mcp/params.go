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
	alias       string // an older program's name for it; "" is none
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
		panic(err) // only literals and plain structs of this package come here
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
		if raw, older := args[p.alias]; older && p.alias != "" {
			args[p.name] = raw
			delete(args, p.alias)
		}
	}
	for _, name := range sortedKeys(args) {
		switch {
		case string(args[name]) == "null":
			delete(args, name)
		case !slices.Contains(names, name):
			return nil, unknownArgument(name, names)
		}
	}
	for _, p := range params {
		if _, given := args[p.name]; p.required && !given {
			return nil, core.Errorf(core.ErrInvalid, "%s is missing", p.name).WithHint("%s: %s", p.name, p.description)
		}
	}
	return args, nil
}

func unknownArgument(name string, names []string) error {
	hint := "there are none"
	if len(names) > 0 {
		hint = "the arguments are " + strings.Join(names, ", ")
	}
	return core.Errorf(core.ErrInvalid, "there is no argument %q", clip(name, 60)).WithHint("%s", hint)
}

// flag returns a truth value; false if it was left out. A quoted one is taken for what it says.
func (a arguments) flag(name string) (bool, error) {
	raw, given := a[name]
	switch {
	case !given:
		return false, nil
	case string(raw) == "true" || string(raw) == `"true"`:
		return true, nil
	case string(raw) == "false" || string(raw) == `"false"`:
		return false, nil
	}
	return false, wrongType(name, "true or false", raw)
}

// whole returns a whole number; usual if it was left out.
func (a arguments) whole(name string, usual int64) (int64, error) {
	raw, given := a[name]
	if !given {
		return usual, nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	if err != nil {
		return 0, wrongType(name, "a whole number", raw)
	}
	return n, nil
}

// pairs returns an object of texts; nil if it was left out.
func (a arguments) pairs(name string) (map[string]string, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	var found map[string]string
	if json.Unmarshal(raw, &found) != nil {
		return nil, wrongType(name, `an object of texts such as {"NAME": "value"}`, raw)
	}
	return found, nil
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

// optional returns a string argument; "" if it was left out.
func (a arguments) optional(name string) (string, error) {
	text, err := a.text(name)
	if text == nil {
		return "", err
	}
	return *text, err
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
	const form = `a list of texts such as ["pandas"]`
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		return nil, wrongType(name, form, a[name])
	}
	list := make([]string, len(items))
	for i, item := range items {
		if string(item) == "null" || json.Unmarshal(item, &list[i]) != nil {
			return nil, core.Errorf(core.ErrInvalid, "%s: number %d must be text; %s was given", name, i+1, jsonKind(item)).
				WithHint("%s is %s", name, form)
		}
	}
	return list, nil
}

// filesForm says what files are, for a sentence.
const filesForm = `a list such as [{"path": "in.csv", "content": "a,b\n1,2\n"}]; encoding is "text" or "base64"`

// files returns the files of a call, decoded.
func (a arguments) files(name string) ([]core.Input, error) {
	raw, given := a[name]
	if !given {
		return nil, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		return nil, wrongType(name, filesForm, raw)
	}
	inputs := make([]core.Input, len(items))
	for i, item := range items {
		input, err := parseFile(item)
		if err != nil {
			return nil, core.Errorf(core.ErrInvalid, "%s: number %d %w", name, i+1, err).WithHint("%s is %s", name, filesForm)
		}
		inputs[i] = input
	}
	return inputs, nil
}

// parseFile reads one file. Its errors go on a sentence that begins with which file it is.
func parseFile(item json.RawMessage) (core.Input, error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(item, &keys) != nil || keys == nil {
		return core.Input{}, fmt.Errorf("must be an object; %s was given", jsonKind(item))
	}
	texts := map[string]string{"path": "", "content": "", "encoding": "text"}
	for _, key := range sortedKeys(keys) {
		if _, known := texts[key]; !known {
			return core.Input{}, fmt.Errorf("has no %q", clip(key, 60))
		}
		var text *string
		if json.Unmarshal(keys[key], &text) != nil || text == nil {
			return core.Input{}, fmt.Errorf("has %s as its %s, which must be text", jsonKind(keys[key]), key)
		}
		texts[key] = *text
	}
	for _, key := range []string{"path", "content"} {
		if _, has := keys[key]; !has {
			return core.Input{}, fmt.Errorf("lacks its %s", key)
		}
	}
	content, err := decodeContent(texts["content"], texts["encoding"])
	if err != nil {
		return core.Input{}, fmt.Errorf("(%q): %w", clip(texts["path"], 80), err)
	}
	return core.Input{Name: inWorkspace(texts["path"]), Content: content}, nil
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
	case 'n':
		return "null"
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
