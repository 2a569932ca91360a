package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func FuzzGuard(f *testing.F) {
	f.Add("POST", "/mcp?x=1", "localhost", "http://localhost", "Bearer a-key", "application/json", "192.0.2.1:1", "")
	f.Add("GET", "//mcp/..", "[::1", "null", "bearer", "a;b=", "@", "::1, x")
	o := testOptions()
	o.KeyInQuery, o.Proxies = true, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
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
		s := testServer(o) // a new one: the failures before would hide what comes after
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
