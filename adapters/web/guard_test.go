package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// keys is an Authenticator for tests: principals by their key, and errors by the key that brings them.
type keys map[string]any

// Authenticate implements Authenticator.
func (k keys) Authenticate(_ context.Context, c Credential) (core.Principal, error) {
	switch found := k[c.Token].(type) {
	case string:
		return core.Principal{ID: found, Credential: "key of " + found}, nil
	case error:
		return core.Principal{}, found
	}
	return core.Principal{}, core.Errorf(core.ErrDenied, "it is unknown")
}

// echo answers with who called, what the handler still sees of the credential, and the body.
func echo(w http.ResponseWriter, r *http.Request) {
	p, _ := core.PrincipalOf(r.Context())
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	fmt.Fprintf(w, "%s|%s%s%s|%s", p.ID, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.URL.RawQuery, text)
}

func testOptions() Options {
	return Options{
		Listen: Listen{Address: "127.0.0.1:8181"}, Hosts: []string{"Box.example:8443"}, Origins: []string{"https://app.example"},
		PublicURL:     &url.URL{Scheme: "https", Host: "public.example", Path: "/tools"},
		Authenticator: keys{"a-key": "ann", "b-key": "bob", "broken": core.Errorf(core.ErrUnavailable, "the store is at 10.0.0.7"), "odd": fmt.Errorf("a fault of ours")},
		BodyLimit:     1000, Log: slog.New(slog.DiscardHandler),
	}
}

func testServer(o Options) *Server {
	return New(o, Route{Pattern: "/mcp", Handler: http.HandlerFunc(echo)}, Route{Pattern: "/open", Handler: http.HandlerFunc(echo), Open: true})
}

// ask sends a request: a method, a path, a body, and headers as "Name: value". Ann's key is shown unless another is.
func ask(s http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8181", "192.0.2.1:1234"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer a-key")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case name == "From":
			r.RemoteAddr = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestWhoIsLetIn(t *testing.T) {
	s := testServer(testOptions())
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"a key":                        {nil, 200},
		"localhost":                    {[]string{"Host: LOCALHOST:8181"}, 200},
		"localhost on another port":    {[]string{"Host: localhost:9"}, 200},
		"IPv6 loopback":                {[]string{"Host: [::1]:8181"}, 200},
		"a trailing dot":               {[]string{"Host: localhost.:8181"}, 200},
		"the public name":              {[]string{"Host: public.example"}, 200},
		"an allowed name and port":     {[]string{"Host: box.example:8443"}, 200},
		"an allowed name, other port":  {[]string{"Host: box.example:80"}, 403},
		"a rebinding name":             {[]string{"Host: evil.example:8181"}, 403},
		"a name that begins so":        {[]string{"Host: localhost.evil.example"}, 403},
		"a name that ends so":          {[]string{"Host: evil-localhost"}, 403},
		"an address that is not ours":  {[]string{"Host: 0.0.0.0:8181"}, 403},
		"no name":                      {[]string{"Host: "}, 403},
		"its own page":                 {[]string{"Origin: http://127.0.0.1:8181"}, 200},
		"a page of an allowed origin":  {[]string{"Origin: https://app.example"}, 200},
		"a page of the public name":    {[]string{"Origin: https://public.example"}, 200},
		"a page of another origin":     {[]string{"Origin: https://evil.example"}, 403},
		"a page of another local port": {[]string{"Origin: http://127.0.0.1:3000"}, 403},
		"the same by another name":     {[]string{"Origin: http://localhost:8181"}, 403},
		"a file or a sandboxed page":   {[]string{"Origin: null"}, 403},
		"no origin at all":             {[]string{"Origin: https://"}, 403},
		"an origin with a path":        {[]string{"Origin: https://app.example/x"}, 403},
		"an image on another page":     {[]string{"Sec-Fetch-Site: cross-site"}, 403},
		"an image on a sister page":    {[]string{"Sec-Fetch-Site: same-site"}, 403},
		"typed by a person":            {[]string{"Sec-Fetch-Site: none"}, 200},
		"no key":                       {[]string{"Authorization: "}, 401},
		"an unknown key":               {[]string{"Authorization: Bearer c-key"}, 401},
		"a password":                   {[]string{"Authorization: Basic YTpi"}, 401},
		"the other header":             {[]string{"Authorization: ", "X-API-Key: b-key"}, 200},
		"two keys":                     {[]string{"X-API-Key: b-key"}, 401},
		"the same key twice":           {[]string{"X-API-Key: a-key"}, 200},
		"a key without end":            {[]string{"Authorization: Bearer " + strings.Repeat("x", maxToken+1)}, 401},
		"a store that is away":         {[]string{"Authorization: Bearer broken"}, 503},
		"a fault":                      {[]string{"Authorization: Bearer odd"}, 500},
		"a form":                       {[]string{"Content-Type: text/plain"}, 415},
		"no type":                      {[]string{"Content-Type: "}, 415},
		"a type with a charset":        {[]string{"Content-Type: application/json; charset=utf-8"}, 200},
	} {
		for _, method := range []string{"POST", "PUT", "DELETE", "GET", "PATCH"} {
			w := ask(s, method, "/mcp", "{}", c.headers...)
			if w.Code != c.status {
				t.Errorf("%s, %s: %d %s, want %d", name, method, w.Code, w.Body, c.status)
			}
			if strings.Contains(w.Body.String(), "10.0.0.7") || strings.Contains(w.Body.String(), "a fault of ours") {
				t.Errorf("%s tells too much: %s", name, w.Body)
			}
			if w.Header().Get("Access-Control-Allow-Origin") == "*" || c.status == 403 && w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: pages of others may read the answer", name)
			}
		}
	}
}

func TestTheCredentialGoesNoFurther(t *testing.T) {
	o := testOptions()
	o.KeyInQuery = true
	s := testServer(o)
	for name, c := range map[string]struct {
		path    string
		headers []string
		want    string
	}{
		"bearer":  {"/mcp?x=1", nil, "ann|x=1|{}"},
		"header":  {"/mcp", []string{"Authorization: ", "X-API-Key: b-key"}, "bob||{}"},
		"query":   {"/mcp?api_key=b-key&x=1", []string{"Authorization: "}, "bob|x=1|{}"},
		"on open": {"/open", []string{"Authorization: "}, "||{}"},
	} {
		if w := ask(s, "POST", c.path, "{}", c.headers...); w.Body.String() != c.want {
			t.Errorf("%s: %d %q, want %q", name, w.Code, w.Body, c.want)
		}
	}
	o.KeyInQuery = false
	if w := ask(testServer(o), "POST", "/mcp?api_key=b-key", "{}", "Authorization: "); w.Code != 401 {
		t.Errorf("a key in the address: %d, though it is not switched on", w.Code)
	}
}

func TestWithoutKeysEverybodyIsTheLocalUser(t *testing.T) {
	o := testOptions()
	o.Authenticator, o.Anonymous = nil, core.Principal{ID: "local"}
	o.RequestsPerMinute = 1
	s := testServer(o)
	for range 3 {
		if w := ask(s, "POST", "/mcp", "{}", "Authorization: Bearer whatever"); w.Body.String() != "local||{}" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

func TestChallenge(t *testing.T) {
	o := testOptions()
	plain := ask(testServer(o), "POST", "/mcp", "{}", "Authorization: ")
	if got, want := plain.Header().Get("WWW-Authenticate"), `Bearer realm="boxwright"`; got != want {
		t.Errorf("without servers: %s, want %s", got, want)
	}
	o.AuthorizationServers = []string{"https://issuer.example"}
	s := testServer(o)
	wrong := ask(s, "POST", "/mcp", "{}", "Authorization: Bearer no")
	const want = `Bearer realm="boxwright", resource_metadata="https://public.example/tools/.well-known/oauth-protected-resource/mcp", error="invalid_token"`
	if got := wrong.Header().Get("WWW-Authenticate"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		w := ask(s, "GET", path, "", "Authorization: ")
		const want = `{"authorization_servers":["https://issuer.example"],"bearer_methods_supported":["header"],"resource":"https://public.example/tools/mcp","resource_name":"Boxwright"}` + "\n"
		if w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := ask(testServer(testOptions()), "GET", "/.well-known/oauth-protected-resource", ""); w.Code != 404 {
		t.Errorf("without servers there is metadata: %d", w.Code)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := testServer(testOptions())
	if w := ask(s, "POST", "/mcp", strings.Repeat("x", 1000)); w.Code != 200 {
		t.Errorf("as long as allowed: %d", w.Code)
	}
	if w := ask(s, "POST", "/mcp", strings.Repeat("x", 1001)); w.Code != 413 || !strings.Contains(w.Body.String(), "longer than 1000B;") {
		t.Errorf("one byte more: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest("POST", "/mcp", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001)))) // its length is not told
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", "a-key")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 413 {
		t.Errorf("one byte more, length not told: %d", w.Code)
	}
}

func TestPagesThatAreAllowedCanAsk(t *testing.T) {
	s := testServer(testOptions())
	w := ask(s, "OPTIONS", "/mcp", "", "Origin: https://app.example", "Access-Control-Request-Method: POST", "Authorization: ")
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Mcp-Session-Id") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask(s, "OPTIONS", "/mcp", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST"); w.Code != 403 {
		t.Errorf("others: %d", w.Code)
	}
}

// A link on any site may lead to what is open, but a script of any site may not read it.
func TestLinksFromOtherSites(t *testing.T) {
	s := testServer(testOptions())
	link := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Authorization: "}
	if w := ask(s, "GET", "/open", "", append(link, "Content-Type: ")...); w.Code != 200 {
		t.Errorf("a link: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/mcp", "", link...); w.Code != 403 {
		t.Errorf("a link to what is not open: %d", w.Code)
	}
	if w := ask(s, "GET", "/open", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"); w.Code != 403 {
		t.Errorf("a script: %d", w.Code)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	o := testOptions()
	o.RequestsPerMinute = 60
	s := testServer(o)
	statuses := map[int]int{}
	for range 12 {
		statuses[ask(s, "POST", "/mcp", "{}").Code]++
	}
	if statuses[200] < 10 || statuses[429] == 0 {
		t.Errorf("of 12 at once: %v, want 10 answered", statuses)
	}
	if w := ask(s, "POST", "/mcp", "{}"); w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if w := ask(s, "POST", "/mcp", "{}", "Authorization: Bearer b-key"); w.Code != 200 {
		t.Errorf("somebody else: %d", w.Code)
	}
}

func TestGuessersAreNotHeard(t *testing.T) {
	s := testServer(testOptions())
	for i := range failuresPerMinute {
		if w := ask(s, "POST", "/mcp", "{}", "Authorization: Bearer guess"); w.Code != 401 {
			t.Fatalf("guess %d: %d", i, w.Code)
		}
	}
	if w := ask(s, "POST", "/mcp", "{}"); w.Code != 429 {
		t.Errorf("after many guesses even the right key: %d", w.Code)
	}
	if w := ask(s, "POST", "/mcp", "{}", "From: 192.0.2.2:1"); w.Code != 200 {
		t.Errorf("from elsewhere: %d", w.Code)
	}
}

func TestAddresses(t *testing.T) {
	o := testOptions()
	o.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	s := testServer(o)
	for _, c := range []struct{ remote, forwarded, address, network string }{
		{"192.0.2.1:5", "", "192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.9", "192.0.2.1", "192.0.2.1"}, // anybody can say so
		{"10.1.1.1:5", "203.0.113.9", "203.0.113.9", "203.0.113.9"},
		{"10.1.1.1:5", "6.6.6.6, 203.0.113.9, 10.2.2.2", "203.0.113.9", "203.0.113.9"},
		{"10.1.1.1:5", "rubbish", "10.1.1.1", "10.1.1.1"},
		{"[::1]:5", "2001:db8::7", "2001:db8::7", "2001:db8::/64"},
		{"[fe80::1%eth0]:5", "", "fe80::1%eth0", "fe80::/64"},
		{"@", "", "", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		r.Header.Set("X-Forwarded-For", c.forwarded)
		if address := s.address(r); address != c.address || network(address) != c.network {
			t.Errorf("%s, %q: %q in %q, want %q in %q", c.remote, c.forwarded, address, network(address), c.address, c.network)
		}
	}
}

func TestLimitsForgetSenders(t *testing.T) {
	l := newLimits(1, 1)
	for i := range 2 * maxLimits {
		if err := l.take(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.of) > maxLimits {
		t.Errorf("%d senders are known", len(l.of))
	}
}

func TestHealth(t *testing.T) {
	o := testOptions()
	var trouble error
	o.Ready = func(context.Context) error { return trouble }
	s := testServer(o)
	probe := func(path string, status int, text string) {
		t.Helper()
		if w := ask(s, "GET", path, "", "Authorization: "); w.Code != status || strings.TrimSpace(w.Body.String()) != text {
			t.Errorf("%s: %d %s, want %d %s", path, w.Code, w.Body, status, text)
		}
	}
	probe("/healthz", 200, `{"status":"ok"}`)
	probe("/readyz", 200, `{"status":"ready"}`)
	trouble = core.Errorf(core.ErrUnavailable, "/var/run/docker.sock refuses")
	probe("/readyz", 503, `{"status":"no engine"}`)
	probe("/healthz", 200, `{"status":"ok"}`)
	s.isDraining.Store(true)
	probe("/readyz", 503, `{"status":"ending"}`)
	if w := ask(s, "GET", "/healthz", "", "Host: evil.example"); w.Code != 403 {
		t.Errorf("by another name: %d", w.Code)
	}
}

func FuzzGuard(f *testing.F) {
	f.Add("POST", "/mcp?x=1", "localhost", "http://localhost", "Bearer a-key", "application/json", "192.0.2.1:1", "")
	f.Add("GET", "//mcp/..", "[::1", "null", "bearer", "a;b=", "@", "::1, x")
	o := testOptions()
	o.KeyInQuery, o.Proxies = true, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	s := testServer(o)
	f.Fuzz(func(t *testing.T, method, target, host, origin, authorization, kind, from, forwarded string) {
		at, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip("no request has it")
		}
		r := &http.Request{
			Method: method, URL: at, RequestURI: target, Host: host, RemoteAddr: from, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{
				"Origin": {origin}, "Authorization": {authorization}, "Content-Type": {kind}, "X-Forwarded-For": {forwarded},
			},
			Body: io.NopCloser(strings.NewReader("{}")),
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "ann|") && (!strings.Contains(strings.ToLower(authorization), "a-key") && !strings.Contains(target, "a-key") || !s.hosts.allowsHost(host)) {
			t.Errorf("let in: %q at %q with %q", host, target, authorization)
		}
	})
}
