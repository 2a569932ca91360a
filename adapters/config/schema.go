package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anyName stands in the schema for the name of a backend or a language.
const anyName = "NAME"

// form is how the value of a key is written.
type form int

const (
	formText form = iota
	formPath
	formSecret
	formWhole
	formNumber
	formFlag
	formSize
	formTime
	formList
	formTable
	formTables
)

// key is one setting: a leaf of Config.
type key struct {
	name      string   // dotted: "limits.memory"
	form      form     //
	allowed   []string // the only values, if there are any
	fallsBack bool     // empty means what the host or the environment gives
	columns   schema   // of each table, in a list of them
	example   string   // of such a table
}

// schema is every key, in the order of Config's fields.
type schema []key

func newSchema() schema { return schemaOf(reflect.TypeFor[Config](), "") }

func schemaOf(t reflect.Type, prefix string) schema {
	var keys schema
	for field := range t.Fields() {
		tag := field.Tag.Get("koanf")
		switch {
		case tag == "-":
		case field.Type.Kind() == reflect.Map && field.Type.Elem().Kind() == reflect.Struct:
			keys = append(keys, schemaOf(field.Type.Elem(), prefix+tag+"."+anyName+".")...)
		case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[Secret]():
			keys = append(keys, schemaOf(field.Type, prefix+tag+".")...)
		default:
			k := key{name: prefix + tag, form: formOf(field), fallsBack: field.Tag.Get("empty") == "falls back"}
			if allowed := field.Tag.Get("allowed"); allowed != "" {
				k.allowed = strings.Split(allowed, ",")
			}
			if k.form == formTables {
				k.columns, k.example = columnsOf(field.Type.Elem()), field.Tag.Get("example")
			}
			keys = append(keys, k)
		}
	}
	return keys
}

func formOf(field reflect.StructField) form {
	switch field.Type {
	case reflect.TypeFor[Size]():
		return formSize
	case reflect.TypeFor[Duration]():
		return formTime
	case reflect.TypeFor[Secret]():
		return formSecret
	case reflect.TypeFor[bool]():
		return formFlag
	case reflect.TypeFor[int64]():
		return formWhole
	case reflect.TypeFor[float64]():
		return formNumber
	case reflect.TypeFor[[]string](), reflect.TypeFor[[]Secret]():
		return formList
	case reflect.TypeFor[map[string]any]():
		return formTable
	}
	if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
		return formTables
	}
	if field.Tag.Get("path") != "" {
		return formPath
	}
	return formText
}

// find returns the key of a dotted name, in which a name of the operator's stands for any.
func (s schema) find(name string) (key, bool) {
	for _, k := range s {
		if k.name == name || k.matches(name) {
			k.name = name
			return k, true
		}
	}
	return key{}, false
}

func (k key) matches(name string) bool {
	before, after, some := strings.Cut(k.name, anyName)
	if !some || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) || len(name) <= len(before)+len(after) {
		return false
	}
	return isName(name[len(before) : len(name)-len(after)])
}

// section reports whether the name is a table of keys.
func (s schema) section(name string) bool {
	if table, own, some := strings.Cut(name, "."); some && s.isNamed(table) {
		return isName(own)
	}
	return slices.ContainsFunc(s, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// isNamed reports whether a table's keys are names that the operator chooses.
func (s schema) isNamed(table string) bool {
	return slices.ContainsFunc(s, func(k key) bool { return strings.HasPrefix(k.name, table+"."+anyName+".") })
}

func isName(name string) bool {
	return len(name) <= 32 && regexp.MustCompile(`^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$`).MatchString(name)
}

// isText reports whether the key's values have a form as text, for variables and flags.
func (k key) isText() bool { return k.form != formTable && k.form != formTables }

// variable is the environment variable of the key.
func (k key) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(k.name))
}

// fromText turns a variable's or flag's text into what a file would hold.
func (k key) fromText(text string) any {
	switch k.form {
	case formList:
		return splitList(text)
	case formFlag:
		if value, err := strconv.ParseBool(text); err == nil {
			return value
		}
	case formWhole:
		if value, err := strconv.ParseInt(text, 10, 64); err == nil {
			return value
		}
	case formNumber:
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			return value
		}
	default:
	}
	return text
}

// splitList splits at commas; blank parts are left out.
func splitList(text string) []any {
	list := []any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// check returns what the value must be if it is not that, and "" if it is.
func (k key) check(value any) string {
	if anyQuoted(value) {
		return "must not hold quotes; write it with one pair of quotes or none"
	}
	if k.fits(value) {
		return ""
	}
	return "must be " + k.wants()
}

func (k key) fits(value any) bool {
	switch value := value.(type) {
	case string:
		return k.fitsText(value)
	case int, int64:
		return k.form == formWhole || k.form == formNumber || k.form == formSize
	case float64:
		return k.form == formNumber
	case bool:
		return k.form == formFlag
	case []any:
		return k.form == formTables || k.form == formList && !slices.ContainsFunc(value, func(item any) bool {
			_, isText := item.(string)
			return !isText
		})
	case map[string]any:
		return k.form == formTable
	}
	return false
}

func (k key) fitsText(text string) bool {
	switch k.form {
	case formText, formPath, formSecret:
		return k.allowed == nil || slices.Contains(k.allowed, text)
	case formSize:
		return new(Size).UnmarshalText([]byte(text)) == nil
	case formTime:
		return new(Duration).UnmarshalText([]byte(text)) == nil
	default:
		return false
	}
}

// wants says what the key's values are, for a sentence.
func (k key) wants() string {
	if k.allowed != nil {
		return oneOf(k.allowed)
	}
	switch k.form {
	case formWhole:
		return "a whole number such as 64, without quotes"
	case formNumber:
		return "a number such as 0.5, without quotes"
	case formFlag:
		return "true or false, without quotes"
	case formSize:
		return "a size such as 512MiB, 2g or 1048576"
	case formTime:
		return "a time with a unit, such as 30s, 5m or 168h"
	case formList:
		return "a list of texts such as [one, two]"
	case formTables:
		return "a list of tables such as " + k.example
	case formTable:
		return "a table of the backend's own settings"
	case formPath:
		return "a path"
	default:
		return "a text"
	}
}

func anyQuoted(value any) bool {
	switch value := value.(type) {
	case string:
		return strayQuotes(value)
	case []any:
		return slices.ContainsFunc(value, anyQuoted)
	}
	return false
}

// strayQuotes finds quotes that were meant for a shell or for YAML and became part of the value.
func strayQuotes(text string) bool {
	return text != "" && (strings.ContainsAny(text[:1], `"'`) || strings.ContainsAny(text[len(text)-1:], `"'`))
}

func oneOf(list []string) string {
	if len(list) == 1 {
		return fmt.Sprintf("%q", list[0])
	}
	return "one of " + strings.Join(list, ", ")
}
