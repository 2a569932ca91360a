package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Values returns every setting by its dotted key, as text. Secrets, and what backends are told, stay hidden.
func (c Config) Values() map[string]string {
	values := map[string]string{}
	collect(values, reflect.ValueOf(c), "")
	return values
}

func collect(values map[string]string, v reflect.Value, prefix string) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("koanf")
		if tag == "-" {
			continue
		}
		switch field := v.Field(i).Interface().(type) {
		case map[string]Backend:
			for name, backend := range field {
				collect(values, reflect.ValueOf(backend), prefix+tag+"."+name+".")
			}
		case map[string]Language:
			for name, language := range field {
				collect(values, reflect.ValueOf(language), prefix+tag+"."+name+".")
			}
		case []Route:
			for i, r := range field {
				values[fmt.Sprintf("%s[%d]", tag, i)] = fmt.Sprintf("%s, %+v", r.Origin, r.Core())
			}
		case []WarmSet:
			for i, w := range field {
				values[fmt.Sprintf("%s%s[%d]", prefix, tag, i)] = fmt.Sprintf("%s, image %q, %q", w.Origin, w.Image, w.Packages)
			}
		case []QuotasOf:
			for i, q := range field {
				values[fmt.Sprintf("%s%s[%d]", prefix, tag, i)] = fmt.Sprintf("%s, %s: %+v", q.Origin, q.Principal, q.quotas())
			}
		case map[string]any:
			values[prefix+tag] = strings.Join(sortedKeys(field), ",")
		case []string:
			values[prefix+tag] = strings.Join(field, ",")
		case []Secret:
			values[prefix+tag] = strings.TrimSuffix(strings.Repeat(Secret{"x"}.String()+",", len(field)), ",")
		case string, bool, int64, float64, Size, Duration, Secret:
			values[prefix+tag] = fmt.Sprint(field)
		default:
			collect(values, v.Field(i), prefix+tag+".")
		}
	}
}
