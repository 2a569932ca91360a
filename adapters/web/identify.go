package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// maxToken bounds a key or a token, in bytes.
const maxToken = 8 << 10

// failuresPerMinute bounds how often an address may show what does not count.
const failuresPerMinute = 30

// identify returns the request with who sends it, or as it is on an open route. It counts against what its principal,
// or else its address, may ask for.
func (s *Server) identify(r *http.Request, open bool) (*http.Request, error) {
	address := s.address(r)
	if open {
		return r, s.requests.take("address " + network(address))
	}
	principal, err := s.authenticate(r, address)
	if err != nil {
		return r, err
	}
	if s.options.Authenticator != nil { // the local user needs no bound
		if err := s.requests.take("principal " + principal.ID); err != nil {
			return r, err
		}
	}
	return r.WithContext(core.WithPrincipal(r.Context(), principal)), nil
}

// authenticate asks who sends the request, and takes out of it what it showed. An address whose guesses are too many
// is told no more of them; a good key counts from there too, as many may share an address.
func (s *Server) authenticate(r *http.Request, address string) (core.Principal, error) {
	token, err := s.token(r)
	if s.options.Authenticator == nil {
		return s.options.Anonymous, nil
	}
	if err == nil && token == "" { // no guess: clients ask so for what the challenge tells
		return core.Principal{}, refusef(http.StatusUnauthorized, "this server wants a key: send it as Authorization: Bearer KEY")
	}
	var principal core.Principal
	if err == nil {
		principal, err = s.options.Authenticator.Authenticate(r.Context(), Credential{Token: token, RemoteAddr: address})
	}
	if err == nil {
		return principal, nil
	}
	refused := s.refusalOf(err)
	if refused.status == http.StatusUnauthorized {
		if err := s.failures.take(network(address)); err != nil {
			return core.Principal{}, err
		}
	}
	return core.Principal{}, refused
}

// token takes the key or token out of a request, so that it is neither logged nor handed on; "" if there is none.
func (s *Server) token(r *http.Request) (string, error) {
	shown := r.Header.Values("X-Api-Key")
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", refusef(http.StatusUnauthorized, "Authorization must be Bearer KEY")
		}
		shown = append(shown, strings.TrimSpace(token))
	}
	if query, err := url.ParseQuery(r.URL.RawQuery); err == nil && query.Has("api_key") {
		if !s.options.KeyInQuery {
			return "", refusef(http.StatusUnauthorized, "a key in an address ends up in logs: send it as Authorization: Bearer KEY")
		}
		shown = append(shown, query["api_key"]...)
		query.Del("api_key")
		r.URL.RawQuery = query.Encode()
		r.RequestURI = r.URL.RequestURI()
	}
	r.Header.Del("Authorization")
	r.Header.Del("X-Api-Key")
	shown = slices.Compact(shown)
	switch {
	case len(shown) == 0:
		return "", nil
	case len(shown) > 1:
		return "", refusef(http.StatusUnauthorized, "the request shows several keys; one is enough")
	case len(shown[0]) > maxToken:
		return "", refusef(http.StatusUnauthorized, "a key or token has at most %d bytes", maxToken)
	}
	return shown[0], nil
}

// address is where a request comes from, without port; "" on a unix socket. Only a known proxy is believed.
func (s *Server) address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.isProxy(host); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		host = hop.Unmap().String()
	}
	return host
}

func (s *Server) isProxy(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.options.Proxies, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
}

// network is what one sender has addresses of: one in IPv4, 64 bits of them in IPv6.
func network(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil || parsed.Unmap().Is4() {
		return address
	}
	prefix, _ := parsed.WithZone("").Prefix(64)
	return prefix.String()
}

// challenge is WWW-Authenticate.
func (s *Server) challenge(refused *refusal) string {
	text := `Bearer realm="boxwright"`
	if len(s.options.AuthorizationServers) > 0 && s.options.PublicURL != nil {
		text += fmt.Sprintf(`, resource_metadata="%s"`, s.options.PublicURL.JoinPath(metadataPath, mcpPath))
	}
	if refused.token != "" {
		text += fmt.Sprintf(`, error="%s"`, refused.token)
	}
	return text
}
