package config

import (
	"os"
	"slices"
	"strings"
)

// hostReader finds out what this host's package managers are set to use: behind a company's
// mirror, proxy or certificate authority, what works for pip on the host works in a box.
type hostReader struct {
	layer
	keys schema
	env  environment
	pip  map[string]string // [global] of pip's configuration
	from map[string]string // the file that each of them is from
}

func hostLayer(keys schema, env environment, pipConfigs []string) layer {
	r := hostReader{keys: keys, env: env, pip: map[string]string{}, from: map[string]string{}}
	if pipConfigs == nil {
		pipConfigs = usualPipConfigs(env)
	}
	for _, file := range pipConfigs {
		r.readPip(file)
	}
	r.either("dependencies.index_url", "index-url", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
	r.either("dependencies.extra_index_urls", "extra-index-url", "PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL")
	r.caBundle()
	r.either("dependencies.http_proxy", "proxy", "HTTP_PROXY", "http_proxy")
	r.either("dependencies.https_proxy", "proxy", "HTTPS_PROXY", "https_proxy")
	r.either("dependencies.no_proxy", "", "NO_PROXY", "no_proxy")
	return r.layer
}

func usualPipConfigs(env environment) []string {
	var files []string
	if file := env["PIP_CONFIG_FILE"]; file == os.DevNull {
		return []string{} // pip's own way of saying: none
	} else if file != "" {
		files = append(files, file)
	}
	if file := env.xdg("XDG_CONFIG_HOME", ".config", "pip", "pip.conf"); file != "" {
		files = append(files, file)
	}
	if home := env["HOME"]; home != "" {
		files = append(files, home+"/.pip/pip.conf")
	}
	return append(files, "/etc/pip.conf")
}

// readPip takes the [global] settings of one file that no earlier file had. A file that cannot
// be read has none: it is pip's, not ours.
func (r *hostReader) readPip(file string) {
	text, err := readBounded(file, maxFile)
	if err != nil {
		return
	}
	for name, value := range parsePip(string(text)) {
		if _, has := r.pip[name]; !has {
			r.pip[name], r.from[name] = value, file
		}
	}
}

// parsePip reads the [global] section of an INI file. Indented lines go on with the value above.
func parsePip(text string) map[string]string {
	global := map[string]string{}
	section, last := "", ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"):
		case line[0] == '[':
			section, last = strings.ToLower(strings.Trim(trimmed, "[]")), ""
		case section != "global":
		case (line[0] == ' ' || line[0] == '\t') && last != "":
			global[last] = strings.TrimSpace(global[last] + " " + trimmed)
		default:
			i := strings.IndexAny(trimmed, "=:")
			if i < 0 {
				continue
			}
			last = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(trimmed[:i])), "_", "-")
			global[last] = strings.TrimSpace(trimmed[i+1:])
		}
	}
	return global
}

// either takes the first variable that is set, else pip's own setting.
func (r *hostReader) either(name, pipName string, variables ...string) {
	origin, text := r.env.first(variables...)
	if text == "" && r.pip[pipName] != "" {
		origin, text = r.from[pipName], r.pip[pipName]
	}
	if text != "" {
		r.take(name, text, origin)
	}
}

func (r *hostReader) caBundle() {
	origin, file := r.env.first("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
	if file == "" {
		origin, file = r.from["cert"], r.pip["cert"]
	}
	if file == "" {
		return
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		r.notes = append(r.notes, "the certificate file of "+origin+" was ignored, as it is not a file that can be read")
		return
	}
	r.take("dependencies.ca_bundle", file, origin)
}

// take adds the host's value if it can be one of ours, and else says so: it was not written for us.
func (r *hostReader) take(name, text, origin string) {
	k, _ := r.keys.find(name)
	schemes := indexSchemes()
	if strings.HasSuffix(name, "_proxy") {
		schemes = proxySchemes()
		if k.form == formSecret && !strings.Contains(text, "://") {
			text = "http://" + text
		}
	}
	if k.form == formList {
		text = strings.Join(strings.Fields(text), ",") // package managers separate by spaces
	}
	s := textSetting(k, text, origin, r.env)
	s.note = name + " is taken from " + origin
	if k.check(s.value) != "" || !areURLs(k, s.value, schemes) {
		r.notes = append(r.notes, name+" cannot be taken from "+origin)
		return
	}
	r.settings = append(r.settings, s)
}

// areURLs checks those settings that are URLs.
func areURLs(k key, value any, schemes []string) bool {
	switch value := value.(type) {
	case string:
		return k.form != formSecret || isURL(value, schemes)
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool {
			text, ok := item.(string)
			return !ok || !isURL(text, schemes)
		})
	}
	return true
}
