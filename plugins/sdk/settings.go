package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// DecodeSettings decodes a plugin's section of the operator's config into the struct that into
// points to. An unknown key, a wrong type or anything but one object is core.ErrInvalid. The
// struct's fields need json tags; what raw leaves out keeps its value.
func DecodeSettings(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return settingsError(err, raw, into)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return core.Errorf(core.ErrInvalid, "settings must be one object")
	}
	return nil
}

func settingsError(err error, raw json.RawMessage, into any) error {
	allowed := settingNames(into)
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) == nil {
		for _, key := range slices.Sorted(maps.Keys(given)) {
			if !slices.Contains(allowed, key) {
				return core.Errorf(core.ErrInvalid, "settings has no key %q", key).
					WithHint("allowed: %s", strings.Join(allowed, ", "))
			}
		}
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return core.Errorf(core.ErrInvalid, "settings.%s must be a %s, not a %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return core.Errorf(core.ErrInvalid, "settings cannot be read: %w", err)
}

// settingNames lists the json keys of the struct that into points to.
func settingNames(into any) []string {
	t := reflect.TypeOf(into)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var names []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
