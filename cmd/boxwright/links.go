package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/links"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
)

// linkKey is the file of the secret that links are signed with.
const linkKey = "links.key"

// fileLinks makes links to files for clients over HTTP. The zero value makes none.
type fileLinks struct {
	signer    *links.Signer
	life      time.Duration
	maxUpload int64
}

// File implements mcp.Links.
func (l *fileLinks) File(f core.Artifact) string {
	if l.signer == nil {
		return ""
	}
	return l.signer.File(f.Run, f.Name, l.life)
}

// Archive implements mcp.Links.
func (l *fileLinks) Archive(run string) string {
	if l.signer == nil {
		return ""
	}
	return l.signer.Archive(run, l.life)
}

// uploadLife bounds how long a link is good that something can be changed by.
const uploadLife = time.Hour

// Upload implements mcp.Links.
func (l *fileLinks) Upload(owner, sandbox, path string) (url string, maxSize int64, until time.Time) {
	if l.signer == nil {
		return "", 0, time.Time{}
	}
	life := min(l.life, uploadLife)
	return l.signer.Upload(owner, sandbox, path, life), l.maxUpload, time.Now().Add(life)
}

// openLinks lets files be reached by links, and returns the routes of those. There are none if the server does not
// know the address that its clients have for it.
func (s *system) openLinks(c config.HTTP, listener net.Listener) ([]web.Route, error) {
	base := baseURL(c, listener)
	if base == "" || c.LinkLifetime == 0 {
		s.log.Info("no links to files are given out: they need http.public_url, and a http.link_lifetime above 0")
		return nil, nil
	}
	key, err := s.instance.Secret(linkKey)
	if err != nil {
		return nil, err
	}
	signer, err := links.NewSigner(key, base, time.Now)
	if err != nil {
		return nil, err
	}
	s.links = fileLinks{signer: signer, life: c.LinkLifetime.Std(), maxUpload: int64(c.MaxUpload)}
	handler := links.Handler(links.Options{
		Signer: signer, Store: s.artifacts, MaxUpload: int64(c.MaxUpload), Log: s.log, Revoked: s.withdrawn,
		Upload: func(ctx context.Context, r core.FileRequest, content io.Reader, _ int64) error {
			counts, err := s.counts(ctx, r.Tenant)
			if err == nil && !counts {
				err = core.Errorf(core.ErrNotFound, "this link was withdrawn").WithHint("ask for a new link")
			}
			if err != nil {
				return err
			}
			return s.tenants.UploadFile(ctx, r, content)
		},
	})
	var routes []web.Route
	for _, pattern := range links.Patterns() {
		routes = append(routes, web.Route{Pattern: pattern, Handler: handler, Open: true, Types: []string{web.AnyType}, BodyLimit: int64(c.MaxUpload), Streamed: true})
	}
	return routes, nil
}

// withdrawn tells since when links to a run's files are no longer good; the zero time: they are. Whose files they are
// was not always kept.
func (s *system) withdrawn(ctx context.Context, run string) (since time.Time, err error) {
	held, err := s.identity.Holding(ctx, run)
	if errors.Is(err, core.ErrNotFound) {
		return since, nil
	}
	if err != nil {
		return since, err
	}
	if counts, err := s.counts(ctx, held.Owner); err != nil || counts {
		return since, err
	}
	return time.Now(), nil
}

// counts reports whether an owner may still use the server. Only of users it is known here that they may not: the
// issuer of tokens is not asked.
func (s *system) counts(ctx context.Context, owner string) (bool, error) {
	if !auth.IsUserID(owner) {
		return true, nil
	}
	user, err := s.identity.User(ctx, owner)
	if errors.Is(err, core.ErrNotFound) {
		return false, nil
	}
	return user.ID == owner && !user.Disabled, err
}

// baseURL is the address of the server for its clients; "" if only they know it.
func baseURL(c config.HTTP, listener net.Listener) string {
	if public := c.Public(); public != nil {
		return public.String()
	}
	address, isTCP := listener.Addr().(*net.TCPAddr)
	if !isTCP || address.IP.IsUnspecified() {
		return ""
	}
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + address.String()
}
