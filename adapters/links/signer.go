// Package links gives files addresses that a browser or a program can use without a key: signed, bound to one
// file and one purpose, and good for a while only. It makes the links and serves them.
//
// It does not know who may have a link: whoever asks for one has been let in already, and whoever holds one needs
// nothing else. It does not keep files either; a store does.
package links

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// The parts of a link's path, after the server's own address.
const (
	filesPath    = "/files/"    // GET: a file of a run
	archivesPath = "/archives/" // GET: all files of a run
	uploadsPath  = "/uploads/"  // PUT: a file of a sandbox's workspace
)

// The parts of a link's query.
const (
	ownerParam  = "owner"
	issuedParam = "issued" // Unix time, milliseconds
	untilParam  = "until"  // Unix time, seconds
	sumParam    = "sum"    // base64url of the signature
	keyBytes    = 32       // of the secret that links are signed with
	maxLink     = 16 << 10 // bytes of a query; ours have a few hundred
	maxLife     = 366 * 24 * time.Hour
)

// target is what a link leads to.
type target struct {
	kind  string // one of the paths
	owner string // of the sandbox; "" for files of runs, which are found by an id that nobody guesses
	place string // the run, or the sandbox
	name  string // the file; "" for all of them
}

// Signer makes links, and tells which are its own. All methods may be called at the same time.
type Signer struct {
	key  []byte
	base string
	now  func() time.Time
}

// NewSigner makes links below base, the address of the server as its clients see it, that are signed with key of
// 32 bytes. Who knows the key can make links to everything.
func NewSigner(key []byte, base string, now func() time.Time) (*Signer, error) {
	if len(key) != keyBytes {
		return nil, core.Errorf(core.ErrInternal, "links are signed with a key of %d bytes; this one has %d", keyBytes, len(key))
	}
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" || at.User != nil {
		return nil, core.Errorf(core.ErrInvalid, "%q is not the address of a server", base).
			WithHint("it looks like https://host/path, without user, query and fragment")
	}
	return &Signer{key: key, base: strings.TrimSuffix(at.String(), "/"), now: now}, nil
}

// File is the link to a file of a run. It is good for life.
func (s *Signer) File(run, name string, life time.Duration) string {
	return s.link(target{kind: filesPath, place: run, name: name}, life)
}

// Archive is the link to all files of a run, as a ZIP archive.
func (s *Signer) Archive(run string, life time.Duration) string {
	return s.link(target{kind: archivesPath, place: run}, life)
}

// Upload is the link that a file of an owner's sandbox can be put to, with HTTP's PUT.
func (s *Signer) Upload(owner, sandbox, name string, life time.Duration) string {
	return s.link(target{kind: uploadsPath, owner: owner, place: sandbox, name: name}, life)
}

func (s *Signer) link(t target, life time.Duration) string {
	now := s.now()
	query := url.Values{
		issuedParam: {strconv.FormatInt(now.UnixMilli(), 10)},
		untilParam:  {strconv.FormatInt(now.Add(min(life, maxLife)).Unix(), 10)},
	}
	if t.owner != "" {
		query.Set(ownerParam, t.owner)
	}
	query.Set(sumParam, s.sum(t, query))
	elements := []string{url.PathEscape(t.place)}
	for element := range strings.SplitSeq(t.name, "/") {
		if element != "" {
			elements = append(elements, url.PathEscape(element))
		}
	}
	return s.base + t.kind + strings.Join(elements, "/") + "?" + query.Encode()
}

// sum signs each part with its length before it, so that no two links have one signature.
func (s *Signer) sum(t target, query url.Values) string {
	mac := hmac.New(sha256.New, s.key)
	for _, part := range []string{t.kind, t.owner, t.place, t.name, query.Get(issuedParam), query.Get(untilParam)} {
		_, _ = mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// check refuses a link that is not ours as ErrDenied, and one that is over as ErrNotFound. It returns when the
// link was made and until when it is good.
func (s *Signer) check(t target, rawQuery string) (issued, until time.Time, err error) {
	notOurs := core.Errorf(core.ErrDenied, "this link was not made here, or it was changed").WithHint("ask for a new link")
	query, parseErr := url.ParseQuery(rawQuery)
	if len(rawQuery) > maxLink || parseErr != nil || !hmac.Equal([]byte(query.Get(sumParam)), []byte(s.sum(t, query))) {
		return issued, until, notOurs
	}
	from, fromErr := strconv.ParseInt(query.Get(issuedParam), 10, 64)
	end, endErr := strconv.ParseInt(query.Get(untilParam), 10, 64)
	if fromErr != nil || endErr != nil || query.Get(ownerParam) != t.owner {
		return issued, until, notOurs
	}
	issued, until = time.UnixMilli(from), time.Unix(end, 0)
	if !s.now().Before(until) {
		return issued, until, core.Errorf(core.ErrNotFound, "this link is over since %s", until.UTC().Format(time.RFC3339)).
			WithHint("ask for a new link")
	}
	return issued, until, nil
}
