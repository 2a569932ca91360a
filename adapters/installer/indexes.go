package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Indexes lists the indexes in the order in which they are asked. The first that has a name is the only one that
// counts for it, so that nobody can take a private package's place with one of the same name elsewhere. For
// that, indexes with credentials come first; among equals the extra ones come before the main one, as uv has it.
// "" stands for the package managers' own default.
func (o Options) Indexes() []string {
	list := append(slices.Clone(o.ExtraIndexURLs), o.IndexURL)
	slices.SortStableFunc(list, func(a, b string) int { return openness(a) - openness(b) })
	return list
}

// openness is less for an index that asks for credentials.
func openness(index string) int {
	if isPrivate(index) {
		return 0
	}
	return 1
}

// isPrivate: what cannot be read as a URL may hold credentials anywhere.
func isPrivate(index string) bool {
	u, err := url.Parse(index)
	return err != nil || u.User != nil
}

// Private implements dependency.Installer. A folder of wheels is the operator's, for all.
func (p *Python) Private() bool {
	return p.options.Wheels == "" && slices.ContainsFunc(p.options.Indexes(), isPrivate)
}

// trustedHosts lists the hosts of http indexes: pip refuses them otherwise, though the operator
// named them.
func (o Options) trustedHosts() string {
	var hosts []string
	for _, index := range o.Indexes() {
		if u, err := url.Parse(index); err == nil && u.Scheme == "http" {
			hosts = append(hosts, u.Host)
		}
	}
	return strings.Join(hosts, " ")
}

// Fingerprint implements dependency.Installer.
func (p *Python) Fingerprint() string {
	o := p.options
	parts := []string{"python 2", fmt.Sprintf("source %v, room %d, wheels %q", o.AllowSourceBuilds, o.MaxSize, o.Wheels)}
	for _, index := range o.Indexes() {
		parts = append(parts, withoutCredentials(index))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}

// withoutCredentials is the index's address alone. What cannot be read as a URL gives nothing:
// nobody knows where its secret is.
func withoutCredentials(index string) string {
	u, err := url.Parse(index)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}
