package config

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// originColumn is the field of each row that says where it stands; no key of a file.
const originColumn = "origin"

// columnsOf are the keys of each table in a list of them.
func columnsOf(row reflect.Type) schema {
	var columns schema
	for _, k := range schemaOf(row, "") {
		if k.name != originColumn {
			columns = append(columns, k)
		}
	}
	return columns
}

func (s schema) names() []string {
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = k.name
	}
	return names
}

// tables reads a list of tables, each with where it stands.
func (r *fileReader) tables(k key, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		r.faultf("", "%s: %s must be %s", r.at(n), k.name, k.wants())
		return
	}
	list := []any{}
	for i, item := range n.Content {
		list = append(list, r.row(k, fmt.Sprintf("%s[%d]", k.name, i), item))
	}
	r.add(setting{key: k, value: list, origin: r.at(n)})
}

// row reads one table of a list; name is what messages call it.
func (r *fileReader) row(list key, name string, n *yaml.Node) map[string]any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	row := map[string]any{originColumn: r.at(n) + ": " + name}
	if n.Kind != yaml.MappingNode {
		r.faultf("", "%s: %s must be a table such as %s", r.at(n), name, list.example)
		return row
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		column, known := list.columns.find(k.Value)
		_, twice := row[k.Value]
		value, err := plain(v)
		switch {
		case !known:
			r.faultf(suggest(k.Value, list.columns.names(), "."), "%s: %s.%s is not a setting", r.at(k), name, k.Value)
		case twice:
			r.faultf("", "%s: %s.%s is given twice", r.at(k), name, k.Value)
		case err != nil || !column.fits(value):
			r.faultf("", "%s: %s.%s must be %s", r.at(v), name, k.Value, column.wants())
		default:
			row[k.Value] = value
		}
	}
	return row
}
