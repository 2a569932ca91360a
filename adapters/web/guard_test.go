package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	return New(o, Route{Pattern: "/mcp", Handler: http.HandlerFunc(echo)}, Route{Pattern: "POST /messages/", Handler: http.HandlerFunc(echo)},
		Route{Pattern: "/open", Handler: http.HandlerFunc(echo), Open: true})
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
		s := testServer(testOptions()) // a new one: guesses are counted
		for _, method := range []string{"POST", "PUT", "DELETE", "GET", "HEAD", "PATCH", "OPTIONS", "TRACE", "SUBSCRIBE"} {
			w := ask(s, method, "/mcp", "{}", c.headers...)
			if w.Code != c.status {
				t.Errorf("%s, %s: %d %s, want %d", name, method, w.Code, w.Body, c.status)
			}
			if strings.Contains(w.Body.String(), `pages of ""`) {
				t.Errorf("%s names an origin that there is not: %s", name, w.Body)
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
	for _, path := range []string{"/mcp", "/messages/"} {
		w := ask(s, "OPTIONS", path, "", "Origin: https://app.example", "Access-Control-Request-Method: POST", "Authorization: ")
		if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" ||
			!strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Mcp-Session-Id") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if w := ask(s, "OPTIONS", path, "", "Origin: https://evil.example", "Access-Control-Request-Method: POST"); w.Code != 403 {
			t.Errorf("%s, others: %d", path, w.Code)
		}
	}
}

// What there is not is refused like what there is: nobody learns which it was, nor comes past the guard.
func TestTheGuardIsBeforeTheRoutes(t *testing.T) {
	s := testServer(testOptions())
	for _, path := range []string{"/mcp", "/mcp/", "//mcp", "/messages", "/messages/", "/messages/../mcp", "/open", "/healthz/x", "/nothing", "/"} {
		for _, method := range []string{"POST", "GET", "HEAD", "OPTIONS", "DELETE"} {
			for _, header := range []string{"Host: evil.example", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"} {
				w := ask(s, method, path, "{}", header)
				isRedirect := w.Code == http.StatusTemporaryRedirect && !strings.HasPrefix(header, "Host") && strings.HasPrefix(w.Header().Get("Location"), "/")
				if w.Code != 403 && !isRedirect { // a redirect leads back to the guard
					t.Errorf("%s %s with %s: %d %s", method, path, header, w.Code, w.Body)
				}
			}
		}
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

// What strangers send does not fill the log.
func TestRefusalsInTheLog(t *testing.T) {
	var text strings.Builder
	o := testOptions()
	o.Log = slog.New(slog.NewTextHandler(&text, nil))
	s := testServer(o)
	long := "/mcp/" + strings.Repeat("x", 5000)
	ask(s, "POST", long, "{}", "Host: evil.example")
	ask(s, "POST", "/mcp", "{}", "Origin: https://evil.example")
	if text.Len() != 0 {
		t.Errorf("it has %q", text.String())
	}
	s.refuse(httptest.NewRecorder(), httptest.NewRequest("POST", long, nil), refusef(http.StatusUnauthorized, "no"))
	if want := "path=" + long[:maxLoggedPath] + " "; !strings.Contains(text.String(), want) {
		t.Errorf("it has %q, want %q", text.String(), want)
	}
}
