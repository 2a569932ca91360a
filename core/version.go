package core

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a version of a Python package, or of Python, as PEP 440 has it. The local part, which only tells
// builds of one version apart, is left out.
type Version struct {
	epoch   int64
	release []int64
	phase   int   // 0: only a development release; then a, b, rc; phaseFinal
	pre     int64 // the number of a, b or rc
	post    int64 // -1: none
	dev     int64 // math.MaxInt64: none
}

const phaseFinal = 4

// versionGrammar reads what ParseVersion reads, often.
type versionGrammar struct{ whole *regexp.Regexp }

func newVersionGrammar() versionGrammar {
	return versionGrammar{regexp.MustCompile(`^v?(?:(\d{1,18})!)?(\d{1,18}(?:\.\d{1,18}){0,15})` +
		`(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d{0,18}))?` +
		`(?:-(\d{1,18})|[-_.]?(post|rev|r)[-_.]?(\d{0,18}))?` +
		`(?:[-_.]?(dev)[-_.]?(\d{0,18}))?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?$`)}
}

// ParseVersion reads a version; ok tells that the text is one.
func ParseVersion(text string) (v Version, ok bool) { return newVersionGrammar().parse(text) }

func (g versionGrammar) parse(text string) (v Version, ok bool) {
	if len(text) > maxRequirementLength {
		return Version{}, false
	}
	m := g.whole.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return Version{}, false
	}
	v = Version{epoch: number(m[1]), phase: phaseFinal, post: -1, dev: math.MaxInt64}
	for part := range strings.SplitSeq(m[2], ".") {
		v.release = append(v.release, number(part))
	}
	if m[5] != "" || m[6] != "" {
		v.post = number(m[5] + m[7])
	}
	if m[8] != "" {
		v.dev = number(m[9])
	}
	switch {
	case m[3] != "":
		v.phase, v.pre = phaseOf(m[3]), number(m[4])
	case v.dev != math.MaxInt64 && v.post < 0:
		v.phase = 0
	}
	return v, true
}

func phaseOf(word string) int {
	switch word[0] {
	case 'a':
		return 1
	case 'b':
		return 2
	}
	return 3 // c, rc, pre, preview
}

// number is 0 for "": a1 may be written a.
func number(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Compare orders versions by age, as cmp.Compare does.
func (v Version) Compare(o Version) int {
	return cmp.Or(
		cmp.Compare(v.epoch, o.epoch), compareReleases(v.release, o.release), cmp.Compare(v.phase, o.phase),
		cmp.Compare(v.pre, o.pre), cmp.Compare(v.post, o.post), cmp.Compare(v.dev, o.dev),
	)
}

// compareReleases takes 1.2 and 1.2.0 for the same.
func compareReleases(a, b []int64) int {
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(part(a, i), part(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

func part(release []int64, i int) int64 {
	if i < len(release) {
		return release[i]
	}
	return 0
}

// Preliminary reports whether an installer takes it only when it is asked for by name.
func (v Version) Preliminary() bool { return v.phase != phaseFinal || v.dev != math.MaxInt64 }

// NewestVersions returns at most limit of the versions, the newest first: final ones, or any if none is final.
// Texts that are no versions are left out.
func NewestVersions(texts []string, limit int) []string {
	type named struct {
		Version
		text string
	}
	grammar := newVersionGrammar()
	var final, preliminary []named
	for _, text := range texts {
		switch v, ok := grammar.parse(text); {
		case !ok:
		case v.Preliminary():
			preliminary = append(preliminary, named{v, text})
		default:
			final = append(final, named{v, text})
		}
	}
	if len(final) == 0 {
		final = preliminary
	}
	slices.SortFunc(final, func(a, b named) int { return cmp.Or(b.Compare(a.Version), strings.Compare(a.text, b.text)) })
	var newest []string
	for _, v := range final[:min(limit, len(final))] {
		newest = append(newest, v.text)
	}
	return newest
}
