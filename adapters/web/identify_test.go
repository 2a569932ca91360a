package web

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
)

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

func TestRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		o.RequestsPerMinute = 60
		s := testServer(o)
		for i := range 10 {
			if w := ask(s, "POST", "/mcp", "{}"); w.Code != 200 {
				t.Errorf("%d of 10 at once: %d", i, w.Code)
			}
		}
		if w := ask(s, "POST", "/mcp", "{}"); w.Code != 429 || w.Header().Get("Retry-After") != "2" {
			t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		if w := ask(s, "POST", "/mcp", "{}", "Authorization: Bearer b-key"); w.Code != 200 {
			t.Errorf("somebody else: %d", w.Code)
		}
		for i := range 10 {
			if w := ask(s, "GET", "/open", "", "Authorization: "); w.Code != 200 {
				t.Errorf("%d of 10 at once from an address: %d", i, w.Code)
			}
		}
		if w := ask(s, "GET", "/healthz", "", "Authorization: "); w.Code != 429 {
			t.Errorf("one more from that address, with another route: %d", w.Code)
		}
		if w := ask(s, "GET", "/open", "", "Authorization: ", "From: 192.0.2.2:1"); w.Code != 200 {
			t.Errorf("from elsewhere: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := ask(s, "POST", "/mcp", "{}"); w.Code != 200 {
			t.Errorf("a second later: %d", w.Code)
		}
	})
}

// Whoever guesses is told no more after a while, but a good key counts from there: many may share an address.
func TestGuessersAreNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer(testOptions())
		guesses := []string{"Authorization: Bearer guess", "Authorization: Basic YTpi", "X-API-Key: another"}
		for i := range 3 * failuresPerMinute {
			want := 401
			if i >= failuresPerMinute {
				want = 429
			}
			if w := ask(s, "POST", "/mcp", "{}", guesses[i%len(guesses)]); w.Code != want {
				t.Fatalf("guess %d: %d, want %d", i, w.Code, want)
			}
			if w := ask(s, "POST", "/mcp", "{}", "Authorization: "); w.Code != 401 {
				t.Fatalf("without a key, after guess %d: %d", i, w.Code)
			}
		}
		if w := ask(s, "POST", "/mcp", "{}"); w.Code != 200 {
			t.Errorf("the right key after many guesses: %d", w.Code)
		}
		if w := ask(s, "POST", "/mcp", "{}", guesses[0], "From: 192.0.2.2:1"); w.Code != 401 {
			t.Errorf("from elsewhere: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := ask(s, "POST", "/mcp", "{}", guesses[0]); w.Code != 401 {
			t.Errorf("a minute later: %d", w.Code)
		}
	})
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
