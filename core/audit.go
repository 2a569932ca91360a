package core

import (
	"regexp"
	"time"
)

// AuditRecord is one thing that somebody did. It never changes.
type AuditRecord struct {
	At         time.Time // when it ended
	Principal  string    // who: the id
	Credential string    // with what: a key's id; "" where none was shown
	Action     string    // "run", "session.open", "file.write", "key.create", …
	Target     string    // what it was done to: a run, a sandbox, a file, a key
	Where      string    // the backend, if it ran something
	Code       string    // "sha256:…", or the code, or ""; as the operator wants it
	Outcome    string    // "ok", the status of a run, or the kind of the error
}

// AuditCode is what of a program's code goes into the audit log.
type AuditCode string

// The choices.
const (
	AuditCodeHash AuditCode = "hash"
	AuditCodeFull AuditCode = "full"
	AuditCodeNone AuditCode = "none"
)

// scrubbed stands for a secret that was taken out.
const scrubbed = "[secret]"

// Scrubber takes out what looks like a credential: keys of this server and of well-known ones, tokens, passwords
// in URLs and in assignments. It is a net, no proof: a secret in another form stays.
type Scrubber struct{ rules []scrubRule }

type scrubRule struct {
	like *regexp.Regexp
	by   string
}

// NewScrubber makes one, for any number of texts at the same time.
func NewScrubber() *Scrubber {
	s := &Scrubber{}
	for _, rule := range []struct{ like, by string }{
		{`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`, scrubbed},
		{`\bbxw_[a-z0-9]+_[a-z0-9]+(_[0-9a-f]+)?`, scrubbed},
		{`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`, scrubbed},
		{`\b(gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|hf_|npm_|pypi-)[A-Za-z0-9_-]{16,}`, scrubbed},
		{`\b(AKIA|ASIA)[A-Z0-9]{16}\b`, scrubbed},
		{`(://)[^/\s'"@]*:[^/\s'"@]*@`, "${1}" + scrubbed + "@"},
		{`(?i)\b(Bearer|Basic)\s+[A-Za-z0-9._~+/-]{8,}=*`, "${1} " + scrubbed},
		{`(?i)((?:password|passwd|pwd|secret|token|api_?key|access_?key|private_?key)["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s"',;)]+)`, "${1}" + scrubbed},
	} {
		s.rules = append(s.rules, scrubRule{regexp.MustCompile(rule.like), rule.by})
	}
	return s
}

// Scrub returns the text without them.
func (s *Scrubber) Scrub(text string) string {
	for _, rule := range s.rules {
		text = rule.like.ReplaceAllString(text, rule.by)
	}
	return text
}
