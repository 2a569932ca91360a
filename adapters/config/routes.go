package config

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// routes reads the list of routes, each with where it stands.
func (r *fileReader) routes(k key, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		r.faultf("", "%s: %s must be %s", r.at(n), k.name, k.wants())
		return
	}
	list := []any{}
	for i, item := range n.Content {
		list = append(list, r.route(fmt.Sprintf("%s[%d]", k.name, i), item))
	}
	r.add(setting{key: k, value: list, origin: r.at(n)})
}

// route reads one route; name is what messages call it.
func (r *fileReader) route(name string, n *yaml.Node) map[string]any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	route := map[string]any{"origin": r.at(n) + ": " + name}
	if n.Kind != yaml.MappingNode {
		r.faultf("", "%s: %s must be a table such as {image: team/*, backend: docker}", r.at(n), name)
		return route
	}
	keys := routeKeys()
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		_, twice := route[k.Value]
		switch {
		case !slices.Contains(keys, k.Value):
			r.faultf(suggest(k.Value, keys, "."), "%s: %s.%s is not a setting", r.at(k), name, k.Value)
		case twice:
			r.faultf("", "%s: %s.%s is given twice", r.at(k), name, k.Value)
		case v.Kind != yaml.ScalarNode || v.Tag != "!!str":
			r.faultf("", "%s: %s.%s must be a text", r.at(v), name, k.Value)
		default:
			route[k.Value] = v.Value
		}
	}
	return route
}

// routeKeys are the keys of a route in a file.
func routeKeys() []string {
	var keys []string
	for field := range reflect.TypeFor[Route]().Fields() {
		if tag := field.Tag.Get("koanf"); tag != "origin" {
			keys = append(keys, tag)
		}
	}
	return keys
}
