package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the settings file, in bytes.
const maxFile = 1 << 20

// fileReader turns a YAML document into settings, each with its line.
type fileReader struct {
	layer
	keys schema
	env  environment
	file string
}

func fileLayer(keys schema, env environment, source Source) layer {
	if source.File == "" {
		return layer{}
	}
	r := fileReader{keys: keys, env: env, file: source.File}
	text, err := readBounded(source.File, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !source.Explicit:
		return layer{}
	case err != nil:
		r.faultf("", "settings file %s cannot be read: %w", source.File, err)
		return r.layer
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return layer{} // nothing but comments
	case err != nil:
		r.syntaxFault(err)
		return r.layer
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.faultf("", "%s: holds more than one YAML document", r.file)
	}
	r.table(document.Content[0], "")
	return r.layer
}

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is longer than %s", Size(limit))
	}
	return text, err
}

// syntaxFault moves the line from the parser's text to where all other faults have it.
func (r *fileReader) syntaxFault(err error) {
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	place := r.file
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(why); m != nil {
		place, why = r.file+":"+m[1], m[2]
	}
	r.faultf("", "%s: is not YAML: %s", place, why)
}

func (r *fileReader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.file, n.Line) }

// table reads the keys of a section; name is "" for the whole file.
func (r *fileReader) table(n *yaml.Node, name string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		what := name
		if what == "" {
			what = "the file"
		}
		r.faultf("", "%s: %s must be a table of keys and values", r.at(n), what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if seen[k.Value] {
			r.faultf("", "%s: %s is given twice", r.at(k), join(name, k.Value))
			continue
		}
		seen[k.Value] = true
		r.entry(k, v, name)
	}
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// entry reads one key of a section.
func (r *fileReader) entry(k, v *yaml.Node, section string) {
	name := join(section, k.Value)
	if r.keys.section(name) {
		r.table(v, name)
		return
	}
	found, ok := r.keys.find(name)
	if i := strings.LastIndexByte(k.Value, '.'); ok && i >= 0 {
		r.faultf("", "%s: %s must be written as %s below %s", r.at(k), name, k.Value[i+1:], join(section, k.Value[:i]))
		return
	}
	if !ok {
		r.unknown(k, name, section)
		return
	}
	if v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
		return // "key:" with nothing behind it leaves the default
	}
	if found.form == formTables {
		r.tables(found, v)
		return
	}
	value, err := plain(v)
	if err != nil {
		r.faultf("", "%s: %s cannot be read: %w", r.at(v), name, err)
		return
	}
	if text, isText := value.(string); isText && found.form == formPath && !strayQuotes(text) {
		value = locate(text, filepath.Dir(r.file), r.env)
	}
	r.add(setting{key: found, value: value, origin: r.at(v)})
}

func (r *fileReader) unknown(k *yaml.Node, name, section string) {
	if r.keys.isNamed(section) {
		r.faultf("", "%s: %q cannot be a %s's name: lower-case letters, digits and single hyphens are allowed", r.at(k), k.Value, strings.TrimSuffix(section, "s"))
		return
	}
	r.faultf(r.keys.nearest(name), "%s: %s is not a setting", r.at(k), name)
}

// nearest suggests a key or section for a name that is none. A name of the operator's is kept.
func (s schema) nearest(name string) string {
	backend := anyName
	if parts := strings.Split(name, "."); len(parts) == 3 && isName(parts[1]) {
		backend = parts[1]
	}
	var candidates []string
	for _, k := range s {
		full := strings.Replace(k.name, anyName, backend, 1)
		if section, _, nested := strings.Cut(full, "."); nested {
			candidates = append(candidates, section)
		}
		candidates = append(candidates, full)
	}
	return suggest(name, candidates, ".")
}

// plain is the node's value as JSON would hold it.
func plain(n *yaml.Node) (any, error) {
	var value any
	if err := n.Decode(&value); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return value, nil
}
