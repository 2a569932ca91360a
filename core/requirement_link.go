package core

import (
	"regexp"
	"strings"
)

// RequirementPolicy is what requirements may be besides packages of an index. The zero value allows no more.
type RequirementPolicy struct {
	Links  bool // "name @ https://host/file.whl": whoever asks decides where it comes from
	Builds bool // with Links, "name @ git+https://host/repository@ref" too, as that is built from source
}

const (
	linkHelp  = `ask for a package of the index; the operator may set dependencies.direct_urls`
	linkForm  = `a link is "name @ https://host/path/file.whl" or "name @ git+https://host/path@ref", without user, password and query`
	buildHelp = `name a ready-made wheel; the operator may set dependencies.allow_source_builds`
)

// isLink reports whether the text is meant as a direct reference.
func isLink(text string) bool { return strings.Contains(text, "://") || strings.Contains(text, "@") }

// parseLink reads "name[extras] @ URL ; marker". No secret has a place in the URL: it is kept and shown.
func (g requirementGrammar) parseLink(text string, policy RequirementPolicy) (Requirement, string, error) {
	reference, marker, hasMarker := strings.Cut(text, ";")
	before, link, _ := strings.Cut(reference, "@")
	before, link = strings.TrimSpace(before), strings.TrimSpace(link)
	name := g.name.FindString(before)
	git := strings.HasPrefix(link, "git+")
	switch {
	case name == "" || !isPlainLink(link):
		return Requirement{}, linkForm, unreadable("has a link that cannot be read")
	case git && !policy.Builds:
		return Requirement{}, buildHelp, unreadable("is built from source, which this server does not allow")
	}
	tail := strings.TrimSpace(before[len(name):])
	if hasMarker {
		tail += ";" + marker
	}
	r, err := g.parseTail(Requirement{Name: NormalizePackage(name)}, tail)
	if err == nil && r.Spec != "" {
		err = unreadable("has versions besides a link")
	}
	r.URL = link
	return r, linkForm, err
}

// isPlainLink: nothing but characters that no installer reads in a way of its own, and no step upwards.
func isPlainLink(link string) bool {
	const (
		place    = `https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+=,-]+)+`
		file     = place + `(?:#sha256=[0-9a-f]{64})?`
		checkout = `git\+` + place + `(?:@[A-Za-z0-9][A-Za-z0-9._/+-]*)?(?:#subdirectory=[A-Za-z0-9_][A-Za-z0-9._/-]*)?`
	)
	return regexp.MustCompile(`^(?:`+file+`|`+checkout+`)$`).MatchString(link) &&
		!strings.Contains(link, "/.") && !strings.Contains(link, "..")
}
