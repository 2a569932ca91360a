package main

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/links"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
)

// linkKey is the file of the secret that links are signed with.
const linkKey = "links.key"

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
	s.linkTo = func(f core.Artifact) string { return signer.File(f.Run, f.Name, c.LinkLifetime.Std()) }
	handler := links.Handler(links.Options{
		Signer: signer, Store: s.artifacts, MaxUpload: int64(c.MaxUpload), Log: s.log,
		Upload: func(ctx context.Context, r core.FileRequest, content io.Reader, _ int64) error {
			return s.tenants.UploadFile(ctx, r, content)
		},
	})
	var routes []web.Route
	for _, pattern := range links.Patterns() {
		routes = append(routes, web.Route{Pattern: pattern, Handler: handler, Open: true, Types: []string{web.AnyType}, BodyLimit: int64(c.MaxUpload), Streamed: true})
	}
	return routes, nil
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
