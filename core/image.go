package core

import (
	"path"
	"regexp"
	"strings"
)

// maxImageLength bounds an image reference, in bytes.
const maxImageLength = 255

const imageHelp = `an image is written like "python:3.11-slim", "registry.example/team/tool:1.2" or "name@sha256:…"`

// imageRef is a reference in its parts.
type imageRef struct {
	repository string // familiar: "python", "team/tool", "registry.example/tool"
	tag        string // "" when there is none
	digest     string // sha256:…; "" when there is none
}

func (r imageRef) String() string {
	text := r.repository
	if r.tag != "" {
		text += ":" + r.tag
	}
	if r.digest != "" {
		text += "@" + r.digest
	}
	return text
}

// ImageHost stands for the programs of the machine that the backend makes boxes on, where an
// image is named. Only some backends have it. An image of that name is "host:latest".
const ImageHost = "host"

// NormalizeImage checks an image reference and returns its familiar form, the same for all
// spellings of one image: "docker.io/library/python" is "python:latest".
func NormalizeImage(ref string) (string, error) {
	if ref == ImageHost {
		return ref, nil
	}
	r, why := parseImage(ref)
	if why == "" && r.tag == "" && r.digest == "" {
		r.tag = "latest"
	}
	if why == "" && len(r.String()) > maxImageLength {
		why = "is too long"
	}
	if why != "" {
		return "", Errorf(ErrInvalid, "image %q %s", shorten(ref), why).WithHint("%s", imageHelp)
	}
	return r.String(), nil
}

// parseImage returns what is wrong with ref, or "".
func parseImage(ref string) (r imageRef, why string) {
	switch {
	case ref == "":
		return r, "is empty"
	case len(ref) > maxImageLength:
		return r, "is too long"
	case strings.ContainsFunc(ref, func(c rune) bool { return c <= ' ' || c > '~' }):
		return r, "holds a character that no image name has"
	}
	rest, digest, hasDigest := strings.Cut(ref, "@")
	if hasDigest && !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
		return r, "has a digest that is not sha256: and 64 hexadecimal digits"
	}
	name, tag, hasTag := cutTag(rest)
	if hasTag && !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`).MatchString(tag) {
		return r, "has a tag that cannot be read"
	}
	return checkName(name, tag, digest)
}

// checkName checks the part that names a repository.
func checkName(name, tag, digest string) (r imageRef, why string) {
	host, components := cutHost(name)
	if host != "" && !regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$`).MatchString(host) {
		return r, "has a registry that cannot be read"
	}
	component := regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	for part := range strings.SplitSeq(components, "/") {
		if !component.MatchString(part) {
			return r, "has a name that is not lower-case letters, digits and single separators"
		}
	}
	// An engine takes 64 hexadecimal digits for the id of an image of its own.
	if host == "" && regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(components) {
		return r, "is an engine's image id, not a name"
	}
	return imageRef{familiar(host, components), tag, digest}, ""
}

// cutTag splits at the colon behind the last slash; an earlier one belongs to a port.
func cutTag(name string) (string, string, bool) {
	i := strings.LastIndexByte(name, ':')
	if i <= strings.LastIndexByte(name, '/') {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// cutHost splits a registry off: a first component with a dot, a port or the name localhost.
func cutHost(name string) (host, components string) {
	first, rest, more := strings.Cut(name, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	return "", name
}

// familiar leaves out what engines assume: the default registry and its folder of official images.
func familiar(host, components string) string {
	if host != "" && host != "docker.io" && host != "index.docker.io" {
		return host + "/" + components
	}
	if official, ok := strings.CutPrefix(components, "library/"); ok && !strings.Contains(official, "/") {
		return official
	}
	if again, _ := cutHost(components); again != "" {
		return "docker.io/" + components // without it, the folder would be read as a registry
	}
	return components
}

// ImagePolicy lists the images that may be used, as patterns. A pattern without a tag allows
// every tag and digest of its repository; * stands for any text in the last component of the
// name or in the tag ("local/*", "python:3.*"); "*" alone allows everything. The empty policy
// allows nothing.
type ImagePolicy []string

// Validate reports the first pattern that cannot be read.
func (p ImagePolicy) Validate() error {
	for _, pattern := range p {
		if _, why := parseImagePattern(pattern); why != "" {
			return Errorf(ErrInvalid, "image pattern %q %s", shorten(pattern), why).
				WithHint(`a pattern is written like "python", "python:3.*", "local/*" or "*"`)
		}
	}
	return nil
}

// Allow returns nil if some pattern matches ref, in any spelling.
func (p ImagePolicy) Allow(ref string) error {
	normal, err := NormalizeImage(ref)
	if err != nil {
		return err
	}
	r, _ := parseImage(normal)
	for _, text := range p {
		if pattern, why := parseImagePattern(text); why == "" && r.matches(pattern) {
			return nil
		}
	}
	allowed := strings.Join(p, ", ")
	if allowed == "" {
		allowed = "none"
	}
	return Errorf(ErrDenied, "image %s is not allowed; allowed are: %s", normal, allowed).WithHint("add it to images.allow")
}

// parseImagePattern reads a pattern as a reference in which each * stands for a letter.
func parseImagePattern(pattern string) (imageRef, string) {
	if pattern == "*" {
		return imageRef{repository: "*"}, ""
	}
	slash := strings.LastIndexByte(pattern, '/') + 1
	name, tail := pattern[:slash], pattern[slash:]
	if strings.Contains(name, "*") {
		return imageRef{}, "has a * before its last component"
	}
	if _, digest, _ := strings.Cut(tail, "@"); strings.Contains(digest, "*") {
		return imageRef{}, "has a * in its digest"
	}
	if _, why := parseImage(name + strings.ReplaceAll(tail, "*", "x")); why != "" {
		return imageRef{}, why
	}
	rest, digest, _ := strings.Cut(pattern, "@")
	repository, tag, _ := cutTag(rest)
	host, components := cutHost(repository)
	return imageRef{familiar(host, components), tag, digest}, ""
}

// matches reports whether the reference is one of the pattern's. A digest overrules a tag when
// an engine fetches, so a pattern that names a tag never allows a reference with a digest
// of which it says nothing.
func (r imageRef) matches(pattern imageRef) bool {
	if pattern.repository == "*" && pattern.tag == "" && pattern.digest == "" {
		return true
	}
	if !glob(pattern.repository, r.repository) {
		return false
	}
	switch {
	case pattern.digest != "":
		return pattern.digest == r.digest && (pattern.tag == "" || glob(pattern.tag, r.tag))
	case pattern.tag != "":
		return r.digest == "" && glob(pattern.tag, r.tag)
	default:
		return true
	}
}

// glob matches with * as the only special character; * does not match a slash.
func glob(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return err == nil && ok
}

// shorten cuts what a caller sent, for a sentence about it.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
