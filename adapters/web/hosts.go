package web

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// hosts are the names and the origins that requests may come with. A page that has its own name lead to this
// machine, to speak to the server as if that were its own, still comes with that name.
type hosts struct {
	names   []string // with a port, or without, which allows all
	origins []string
}

func newHosts(o Options) *hosts {
	h := &hosts{names: o.Listen.names()}
	for _, name := range o.Hosts {
		h.names = append(h.names, canonical(name))
	}
	for _, origin := range o.Origins {
		h.origins = append(h.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	if o.PublicURL != nil {
		h.names = append(h.names, canonical(o.PublicURL.Hostname()))
		h.origins = append(h.origins, strings.ToLower(o.PublicURL.Scheme+"://"+o.PublicURL.Host))
	}
	return h
}

// canonical is a host, with or without port, as hosts are compared.
func canonical(host string) string {
	host = strings.ToLower(host)
	if name, port, err := net.SplitHostPort(host); err == nil {
		return net.JoinHostPort(strings.TrimSuffix(name, "."), port)
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
}

// allowsHost reports whether a request may call the server by that name.
func (h *hosts) allowsHost(host string) bool {
	host = canonical(host)
	if host == "" {
		return false
	}
	if slices.Contains(h.names, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && slices.Contains(h.names, name)
}

// origin is where the page is that sent a request.
type origin int

const (
	noPage     origin = iota // no page of a browser sent it, or it does not tell
	ownPage                  // a page of this server
	alliedPage               // a page of an allowed origin
	otherPage                // any other
)

// originOf tells from where a request comes whose Host is allowed.
func (h *hosts) originOf(r *http.Request) origin {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return originWithoutName(r)
	}
	text := strings.ToLower(values[0])
	u, err := url.Parse(text)
	switch {
	case len(values) > 1 || err != nil || u.Host == "" || text != u.Scheme+"://"+u.Host:
		return otherPage
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host == strings.ToLower(r.Host):
		return ownPage
	case slices.Contains(h.origins, text):
		return alliedPage
	}
	return otherPage
}

// originWithoutName is of a request without Origin: browsers leave it out where a page only wants something shown,
// but tell then that it was a page.
func originWithoutName(r *http.Request) origin {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none":
		return noPage
	case "same-origin":
		return ownPage
	}
	return otherPage
}

// share lets a page of an allowed origin read the answer; it answers what browsers ask before they send a request.
func share(w http.ResponseWriter, r *http.Request) (answered bool) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
	header.Set("Access-Control-Allow-Headers",
		"Authorization, X-API-Key, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Range")
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
