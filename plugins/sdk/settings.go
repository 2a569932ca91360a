package sdk

import (
	"bytes"
	"cmp"
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
// points to. An unknown key, one in other capitals, a key that comes twice, a wrong type
// or anything but one object is core.ErrInvalid. The struct's fields need json tags; what raw leaves out keeps its value.
func DecodeSettings(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	err := checkKeys(json.NewDecoder(bytes.NewReader(raw)), reflect.TypeOf(into), "settings")
	if core.KindOf(err) == core.ErrInvalid {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return settingsError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return core.Errorf(core.ErrInvalid, "settings must be one object")
	}
	return nil
}

func settingsError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return core.Errorf(core.ErrInvalid, "settings.%s must be a %s, not a %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return core.Errorf(core.ErrInvalid, "settings cannot be read: %w", err)
}

// checkKeys compares the names of all keys exactly, which encoding/json does not: it takes
// "Host" for "host", and the last of two. t is what the next value is decoded into, or nil. What
// is no JSON is an error that the decoding reports better.
func checkKeys(dec *json.Decoder, t reflect.Type, where string) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return checkObject(dec, plain(t), where)
	case json.Delim('['):
		for dec.More() {
			if err := checkKeys(dec, element(plain(t)), where); err != nil {
				return err
			}
		}
		_, err = dec.Token()
	}
	return err
}

func checkObject(dec *json.Decoder, t reflect.Type, where string) error {
	fields := settingFields(t)
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // an object's keys are
		inner, known := fields[key]
		switch {
		case seen[key]:
			return core.Errorf(core.ErrInvalid, "%s has the key %q twice", where, key)
		case fields == nil:
			inner = element(t)
		case !known:
			return core.Errorf(core.ErrInvalid, "%s has no key %q", where, key).
				WithHint("allowed: %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(fields)), ", "), "none"))
		}
		seen[key] = true
		if err := checkKeys(dec, inner, where+"."+key); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// plain is the type behind pointers; nil for one that decodes itself.
func plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	return t
}

// element is the type of what a list or map holds; nil if it can be anything.
func element(t reflect.Type) reflect.Type {
	if t == nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem()
	default:
		return nil
	}
}

// settingFields are the types of a struct's fields by their json keys; nil if it is no struct.
func settingFields(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}
