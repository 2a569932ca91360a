package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// HTTP is how the server is reached over HTTP.
type HTTP struct {
	// Listen is the address to listen at, HOST:PORT. One that others than this machine reach needs keys.
	Listen string `koanf:"listen"`
	// UnixSocket is a path to listen at instead; only the server's own user can connect.
	UnixSocket string `koanf:"unix_socket" path:"yes"`
	// TLSCert is a PEM file of the certificate and those above it, TLSKey of its key. They are read again when they
	// change. Empty: no TLS.
	TLSCert string `koanf:"tls_cert" path:"yes"`
	TLSKey  string `koanf:"tls_key" path:"yes"`
	// PublicURL is where clients reach the server, if a proxy is in between. Empty: where it listens.
	PublicURL string `koanf:"public_url"`
	// AllowedHosts are further names by which clients may call the server, with or without port: those of the
	// loopback, of the address and of public_url may be used anyway.
	AllowedHosts []string `koanf:"allowed_hosts"`
	// AllowedOrigins are of pages of other sites that may use the server, such as https://app.example.
	AllowedOrigins []string `koanf:"allowed_origins"`
	// TrustedProxies are addresses, or networks such as 10.0.0.0/8, that are believed which address a request is from
	// (X-Forwarded-For).
	TrustedProxies []string `koanf:"trusted_proxies"`
	// APIKeyInQuery also takes a key as ?api_key= in the address, from where it gets into logs and histories.
	APIKeyInQuery bool `koanf:"api_key_in_query"`
	// BodyLimit bounds one request, in bytes.
	BodyLimit Size `koanf:"body_limit"`
	// SessionsPerPrincipal is how many sessions and streams a principal may have open; beyond that, the one that was
	// not used for longest ends.
	SessionsPerPrincipal int64 `koanf:"sessions_per_principal"`
	// SessionIdleTimeout is how long an MCP session stays that nobody uses.
	SessionIdleTimeout Duration `koanf:"session_idle_timeout"`
	// RequestsPerMinute bounds the requests of each principal, where there are keys. 0: no bound.
	RequestsPerMinute int64 `koanf:"requests_per_minute"`
	// LinkLifetime is how long links to files of runs are good. 0: none are given out.
	LinkLifetime Duration `koanf:"link_lifetime"`
	// MaxUpload bounds a file that is put to a link, in bytes.
	MaxUpload Size `koanf:"max_upload"`
	// DrainTimeout is how long calls under way may go on when the server ends.
	DrainTimeout Duration `koanf:"drain_timeout"`
}

// The transports.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "http"
	TransportBoth  = "both"
)

// UsesStdio reports whether the server speaks on its standard input and output.
func (c Config) UsesStdio() bool { return c.Transport != TransportHTTP }

// UsesHTTP reports whether the server listens.
func (c Config) UsesHTTP() bool { return c.Transport != TransportStdio }

func defaultHTTP() HTTP {
	return HTTP{
		Listen: "127.0.0.1:8181", BodyLimit: 32 << 20, SessionsPerPrincipal: 1000, SessionIdleTimeout: seconds(3600),
		RequestsPerMinute: 6000, LinkLifetime: hours(24), MaxUpload: 2 << 30, DrainTimeout: seconds(20),
		AllowedHosts: []string{}, AllowedOrigins: []string{}, TrustedProxies: []string{},
	}
}

// Public returns public_url; nil if it is empty.
func (h HTTP) Public() *url.URL {
	if h.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(h.PublicURL)
	if err != nil {
		return nil // Validate has refused it
	}
	return u
}

// Proxies returns trusted_proxies as networks. Those that are none are left out.
func (h HTTP) Proxies() (networks []netip.Prefix) {
	for _, text := range h.TrustedProxies {
		if network, err := parseNetwork(text); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Prefix(address.BitLen())
	}
	return netip.ParsePrefix(text)
}

func (v *validator) http(c Config) {
	h := c.HTTP
	host, _, err := net.SplitHostPort(h.Listen)
	v.check(err == nil, "http.listen is %q, but must be HOST:PORT, such as 127.0.0.1:8181", h.Listen)
	address := net.ParseIP(host)
	v.check(!c.UsesHTTP() || h.UnixSocket != "" || host != "" && !address.IsUnspecified() || h.PublicURL != "" || len(h.AllowedHosts) > 0,
		"http.listen is %q, which has no name: say in http.public_url or http.allowed_hosts what clients call the server, and who may use it with auth.mode, such as keys", h.Listen)
	v.check((h.TLSCert == "") == (h.TLSKey == ""), "http.tls_cert and http.tls_key belong together, but only one of them is set")
	v.check(h.PublicURL == "" || isOrigin(h.PublicURL, true), "http.public_url is %q, but must be a URL such as https://boxwright.example", h.PublicURL)
	for _, host := range h.AllowedHosts {
		v.check(host != "" && !strings.ContainsAny(host, "/*@ "), "http.allowed_hosts holds %q, but must hold names such as boxwright.example or boxwright.example:8443", host)
	}
	for _, origin := range h.AllowedOrigins {
		v.check(isOrigin(origin, false), "http.allowed_origins holds %q, but must hold origins such as https://app.example", origin)
	}
	for _, proxy := range h.TrustedProxies {
		_, err := parseNetwork(proxy)
		v.check(err == nil, "http.trusted_proxies holds %q, but must hold addresses or networks such as 10.0.0.0/8", proxy)
	}
	v.check(!c.invitesWithoutKeys(),
		"auth.mode is none, which is for this machine alone, but http.public_url, http.allowed_hosts or http.trusted_proxies let others in: set auth.mode to keys")
	v.positive("http.body_limit", h.BodyLimit)
	v.check(h.SessionsPerPrincipal > 0, "http.sessions_per_principal is %d, but must be more than 0", h.SessionsPerPrincipal)
	v.check(h.SessionIdleTimeout >= seconds(60), "http.session_idle_timeout is %s, but must be at least 1m", h.SessionIdleTimeout)
	v.check(h.RequestsPerMinute >= 0, "http.requests_per_minute is %d, but must not be below 0", h.RequestsPerMinute)
	v.check(h.LinkLifetime >= 0, "http.link_lifetime is %s, but must not be below 0", h.LinkLifetime)
	v.positive("http.max_upload", h.MaxUpload)
	v.check(h.DrainTimeout >= 0, "http.drain_timeout is %s, but must not be below 0", h.DrainTimeout)
}

// invitesWithoutKeys reports whether others than this machine's programs are meant to reach a server that asks nobody
// for a key.
func (c Config) invitesWithoutKeys() bool {
	if !c.UsesHTTP() || c.Auth.Mode != AuthNone {
		return false
	}
	h, public := c.HTTP, c.HTTP.Public()
	return public != nil && !isLoopback(public.Host) || len(h.TrustedProxies) > 0 ||
		slices.ContainsFunc(h.AllowedHosts, func(host string) bool { return !isLoopback(host) })
}

// isLoopback reports whether a host, with or without port, is this machine as only its own programs call it.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || address != nil && address.IsLoopback()
}

// isOrigin reports whether text is scheme://host[:port], with a path if that is allowed.
func isOrigin(text string, path bool) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains(indexSchemes(), u.Scheme) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return path || u.Path == "" || u.Path == "/"
}
