// Package catalog asks package indexes what they have: by the JSON of each project where an index offers that,
// else by the simple API (PEP 691 and 503), or by the names of the files in a folder of wheels.
//
// It installs nothing: package installer does, from within a box. What indexes answer is hostile: its size is
// bounded, and only plain text comes out. Addresses and credentials of indexes are in no error.
package catalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/boxwright/boxwright/core"
)

// Options say where packages come from.
type Options struct {
	Indexes    []string // in the order in which they are asked; may hold credentials; "" is one that only package managers know
	Wheels     string   // a folder of this host; if it is set, no index is asked
	CABundle   string   // a PEM file of this host, besides the system's authorities
	HTTPProxy  string   // may hold credentials
	HTTPSProxy string   // may hold credentials
	NoProxy    string
	Timeout    time.Duration // of one look; 0 is 20 seconds
}

// String tells nothing: half of the fields may hold secrets.
func (Options) String() string { return "[catalog options]" }

// GoString tells nothing either.
func (o Options) GoString() string { return o.String() }

// Catalog is a dependency.Catalog.
type Catalog struct {
	options Options
	client  *http.Client
	partial bool  // there is an index that is not known here
	broken  error // of the settings
}

// New returns a catalog. Settings that cannot be used are an error of each look.
func New(o Options) *Catalog {
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	c := &Catalog{partial: slices.Contains(o.Indexes, "") || len(o.Indexes) == 0}
	o.Indexes = slices.DeleteFunc(slices.Clone(o.Indexes), func(index string) bool { return index == "" })
	c.options = o
	proxy := (&httpproxy.Config{HTTPProxy: o.HTTPProxy, HTTPSProxy: o.HTTPSProxy, NoProxy: o.NoProxy}).ProxyFunc()
	roots, err := authorities(o.CABundle)
	c.broken = err
	c.client = &http.Client{Transport: &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: o.Timeout,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}}
	return c
}

// authorities are the system's and those of the bundle; nil is the system's.
func authorities(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return nil, nil //nolint:nilnil // as in tls.Config
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pem, err := os.ReadFile(bundle) //nolint:gosec // the operator names it
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return nil, core.Errorf(core.ErrUnavailable, "the certificate bundle for package indexes cannot be read").
			WithHint("the operator sets it with dependencies.ca_bundle")
	}
	return pool, nil
}

// Look implements dependency.Catalog. An index that cannot be asked does not keep the next from being asked.
func (c *Catalog) Look(ctx context.Context, name string) (core.Package, error) {
	if c.options.Wheels != "" {
		return inFolder(c.options.Wheels, name)
	}
	if c.broken != nil {
		return core.Package{}, c.broken
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	var trouble error
	for _, index := range c.options.Indexes {
		found, err := c.ask(ctx, index, name)
		if err == nil {
			return found, nil
		}
		if trouble == nil && !errors.Is(err, core.ErrNotFound) {
			trouble = err
		}
	}
	switch {
	case trouble != nil:
		return core.Package{}, trouble
	case c.partial:
		return core.Package{}, core.Errorf(core.ErrUnsupported, "no package index is set that could be asked").
			WithHint("the operator sets dependencies.index_url")
	}
	return core.Package{}, unknown(name)
}

func unknown(name string) error {
	return core.Errorf(core.ErrNotFound, "the package index has no package %q", name)
}

// ask asks one index, in the way that tells most first.
func (c *Catalog) ask(ctx context.Context, index, name string) (core.Package, error) {
	base, err := url.Parse(strings.TrimRight(index, "/"))
	if err != nil || base.Host == "" {
		return core.Package{}, core.Errorf(core.ErrUnavailable, "the address of a package index cannot be read").
			WithHint("the operator checks dependencies.index_url")
	}
	if project, ok := projectURL(base, name); ok {
		found, err := c.project(ctx, project)
		if !errors.Is(err, core.ErrNotFound) && !errors.Is(err, core.ErrUnsupported) {
			return found, err
		}
	}
	return c.simple(ctx, base.JoinPath(name, "/"), name)
}

// projectURL is where an index whose simple API is at …/simple has a project's JSON.
func projectURL(base *url.URL, name string) (*url.URL, bool) {
	parent, is := strings.CutSuffix(base.Path, "/simple")
	if !is {
		return nil, false
	}
	project := *base
	project.Path, project.RawPath = parent, ""
	return project.JoinPath("pypi", name, "json"), true
}
