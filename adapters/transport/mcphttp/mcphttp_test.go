package mcphttp

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestASessionIsItsOwners(t *testing.T) {
	w := newWorld(t, Options{})
	session := w.open(t, "ann")
	_, address := w.stream(t, "ann")
	none := strings.Replace(session, session[len(session)-3:], "xyz", 1)
	for name, c := range map[string]struct {
		user, method, path, header string
		status                     int
	}{
		"its owner's call":              {"ann", "POST", "/mcp", session, 200},
		"a stolen id, call":             {"bob", "POST", "/mcp", session, 404},
		"a stolen id, stream":           {"bob", "GET", "/mcp", session, 404},
		"a stolen id, end":              {"bob", "DELETE", "/mcp", session, 404},
		"a stolen address of SSE":       {"bob", "POST", address, "", 404},
		"its owner's message":           {"ann", "POST", address, "", 202},
		"a guessed id, call":            {"ann", "POST", "/mcp", none, 404},
		"a guessed id, stream":          {"ann", "GET", "/mcp", none, 404},
		"a guessed id, end":             {"ann", "DELETE", "/mcp", none, 404},
		"a guessed address":             {"ann", "POST", MessagesPath + "?session_id=x", "", 404},
		"a session of the other kind":   {"ann", "POST", MessagesPath + "?session_id=" + strings.TrimPrefix(session, "Mcp-Session-Id: "), "", 404},
		"no id, call":                   {"ann", "POST", "/mcp", "", 400},
		"no id, stream":                 {"ann", "GET", "/mcp", "", 400},
		"no id, end":                    {"ann", "DELETE", "/mcp", "", 400},
		"no id, message":                {"ann", "POST", MessagesPath, "", 400},
		"nobody, call":                  {"", "POST", "/mcp", session, 401},
		"nobody, stream":                {"", "GET", "/sse", "", 401},
		"nobody, message":               {"", "POST", address, "", 401},
		"a method that there is not":    {"ann", "PUT", "/mcp", session, 405},
		"the headers of a stream":       {"ann", "HEAD", "/sse", "", 405},
		"the stream of a later edition": {"ann", "GET", "/mcp", "Mcp-Protocol-Version: 2026-07-28", 405},
	} {
		if a := w.begin(t, c.user, c.method, c.path, call(1, "who"), c.header); a.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, a.StatusCode, c.status)
		}
	}
	if a := w.ask(t, "ann", "POST", "/mcp", call(1, "who"), session); !strings.Contains(a.text, "ann on "+strings.TrimPrefix(session, "Mcp-Session-Id: ")) {
		t.Errorf("its owner is answered %s", a.text)
	}
	if a := w.ask(t, "bob", "POST", "/mcp", modernCall(1, "who"), append(modernHeaders("who"), session)...); !strings.Contains(a.text, `"bob on "`) {
		t.Errorf("a stolen id in a later edition, which has none, is answered %s", a.text)
	}
	if a := w.ask(t, "ann", "DELETE", "/mcp", "", session); a.StatusCode != 200 {
		t.Errorf("its end: %d", a.StatusCode)
	}
	if a := w.ask(t, "ann", "POST", "/mcp", call(1, "who"), session); a.StatusCode != 404 {
		t.Errorf("after its end: %d", a.StatusCode)
	}
	w.awaitOver(t, 1)
}

func TestWhatIsNoMessage(t *testing.T) {
	w := newWorld(t, Options{})
	session := w.open(t, "ann")
	_, address := w.stream(t, "ann")
	for body, status := range map[string]int{
		"": 400, "x": 400, "[]": 400, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: 400, `{"method":5}`: 400, "{}{}": 400,
		strings.Repeat(" ", 10_001): 413,
	} {
		for _, path := range []string{"/mcp", address} {
			if a := w.ask(t, "ann", "POST", path, body, session); a.StatusCode != status {
				t.Errorf("%.20q to %.5s: %d %s, want %d", body, path, a.StatusCode, a.text, status)
			}
		}
	}
}

// ways are those in which a call can be made, so that it waits.
func ways(t *testing.T, w *world, user string) map[string]func() (leave func()) {
	t.Helper()
	return map[string]func() func(){
		"streamable": func() func() { return w.post(t, user, call(7, "wait"), w.open(t, user)) },
		"modern":     func() func() { return w.post(t, user, modernCall(7, "wait"), modernHeaders("wait")...) },
		"SSE": func() func() {
			stream, address := w.stream(t, user)
			w.ask(t, user, "POST", address, call(7, "wait"))
			return stream.leave
		},
	}
}

func TestAClientThatGoesEndsItsCalls(t *testing.T) {
	w := newWorld(t, Options{})
	for name, begin := range ways(t, w, "ann") {
		leave := begin()
		awaits(t, w.began, "ann")
		leave()
		t.Log(name)
		awaits(t, w.ended, "ann withdrawn")
	}
}

// Nobody's cancellation ends another's call, whichever way either takes, though the calls have one number.
func TestNobodyCancelsAnothersCall(t *testing.T) {
	w := newWorld(t, Options{})
	for _, begin := range ways(t, w, "ann") {
		begin()
		awaits(t, w.began, "ann")
	}
	modern := strings.Replace(modernCall(0, "x"), `"id":0,"method":"tools/call","params":{"name":"x"`, `"method":"notifications/cancelled","params":{"requestId":7`, 1)
	_, address := w.stream(t, "bob")
	for name, a := range map[string]*answer{
		"modern":                 w.ask(t, "bob", "POST", "/mcp", modern, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: notifications/cancelled"),
		"modern by header alone": w.ask(t, "bob", "POST", "/mcp", cancelSeven, "Mcp-Protocol-Version: 2026-07-28"),
		"modern by body alone":   w.ask(t, "bob", "POST", "/mcp", modern),
		"streamable":             w.ask(t, "bob", "POST", "/mcp", cancelSeven, w.open(t, "bob")),
		"another of ann's":       w.ask(t, "ann", "POST", "/mcp", cancelSeven, w.open(t, "ann")),
		"SSE":                    w.ask(t, "bob", "POST", address, cancelSeven),
	} {
		if a.StatusCode != 202 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.text)
		}
	}
	close(w.release)
	for range 3 {
		awaits(t, w.ended, "ann released")
	}
}

func TestCancelledByItsClient(t *testing.T) {
	w := newWorld(t, Options{})
	session := w.open(t, "ann")
	w.post(t, "ann", call(7, "wait"), session)
	awaits(t, w.began, "ann")
	w.ask(t, "ann", "POST", "/mcp", cancelSeven, session)
	awaits(t, w.ended, "ann withdrawn")

	stream, address := w.stream(t, "ann")
	w.ask(t, "ann", "POST", address, call(7, "wait"))
	awaits(t, w.began, "ann")
	w.ask(t, "ann", "POST", address, cancelSeven)
	awaits(t, w.ended, "ann withdrawn")
	w.ask(t, "ann", "POST", address, call(8, "who"))
	if stream.line(t); !strings.Contains(stream.line(t), `"id":8`) {
		t.Error("a call that was withdrawn has been answered")
	}
}

func TestTheEndOfASessionEndsItsCalls(t *testing.T) {
	w := newWorld(t, Options{})
	session := w.open(t, "ann")
	listening := w.begin(t, "ann", "GET", "/mcp", "", session)
	w.post(t, "ann", call(7, "wait"), session)
	awaits(t, w.began, "ann")
	w.ask(t, "ann", "DELETE", "/mcp", "", session)
	awaits(t, w.ended, "ann withdrawn")
	if line := listening.line(t); line != "end" {
		t.Errorf("its stream goes on with %q", line)
	}
	w.awaitOver(t, 1)
}

func TestSessionsPerPrincipal(t *testing.T) {
	w := newWorld(t, Options{SessionsPerPrincipal: 2})
	first := w.open(t, "ann")
	second := w.open(t, "ann")
	w.ask(t, "ann", "POST", "/mcp", call(1, "who"), first)
	third := w.open(t, "ann") // in place of the one not used for longest
	for session, status := range map[string]int{first: 200, second: 404, third: 200} {
		if a := w.ask(t, "ann", "POST", "/mcp", call(1, "who"), session); a.StatusCode != status {
			t.Errorf("%d, want %d", a.StatusCode, status)
		}
	}
	w.awaitOver(t, 1)
	for _, session := range []string{first, third} {
		w.begin(t, "ann", "GET", "/mcp", "", session)
	}
	if a := w.ask(t, "ann", "POST", "/mcp", initializeBody); a.StatusCode != 429 {
		t.Errorf("a third while two are in use: %d %s", a.StatusCode, a.text)
	}
	if a := w.begin(t, "ann", "GET", "/sse", ""); a.StatusCode != 429 {
		t.Errorf("a stream while two are in use: %d", a.StatusCode)
	}
	if a := w.listen(t, "ann"); a.StatusCode != 429 {
		t.Errorf("a stream of a later edition while two are in use: %d", a.StatusCode)
	}
	w.open(t, "bob")
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over []string
		s := newSessions(Options{IdleTimeout: time.Hour}.withDefaults(), func(one *session) { over = append(over, one.owner) })
		go s.sweep(t.Context())
		busy, leave, err := s.begin("bob")
		if err != nil {
			t.Fatal(err)
		}
		idle, left, err := s.begin("ann")
		if err != nil {
			t.Fatal(err)
		}
		left()
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if !s.has(idle.id) {
			t.Error("one that was used has ended too early")
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if !s.has(busy.id) || s.has(idle.id) || !slices.Equal(over, []string{"ann"}) {
			t.Errorf("ended are %q, want ann's, which nobody uses", over)
		}
		leave()
		time.Sleep(70 * time.Minute)
		synctest.Wait()
		if s.has(busy.id) || !slices.Equal(over, []string{"ann", "bob"}) {
			t.Errorf("ended are %q, want both", over)
		}
	})
}

// The library forgets a session too, also one that ends while it begins.
func TestTheLibraryForgets(t *testing.T) {
	w := newWorld(t, Options{SessionsPerPrincipal: 1})
	var ids []string
	for range 50 {
		ids = append(ids, strings.TrimPrefix(w.open(t, "ann"), "Mcp-Session-Id: "))
	}
	known := func() (count int) {
		for _, id := range ids {
			if w.mcp.SendNotificationToSpecificClient(id, "x", nil) == nil {
				count++
			}
		}
		return count
	}
	for deadline := time.Now().Add(patience); known() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it knows %d, want the one that is open", known())
		}
	}
}

// Whoever is expelled loses all sessions and streams with their calls; others lose nothing.
func TestExpel(t *testing.T) {
	w := newWorld(t, Options{})
	for _, user := range []string{"ann", "bob"} {
		for _, way := range []string{"streamable", "SSE"} { // the modern way has no sessions
			ways(t, w, user)[way]()
			awaits(t, w.began, user)
		}
	}
	if owners := w.Owners(); !slices.Equal(owners, []string{"ann", "bob"}) {
		t.Errorf("owners are %q", owners)
	}
	w.Expel("ann")
	for range 2 {
		awaits(t, w.ended, "ann withdrawn")
	}
	if owners := w.Owners(); !slices.Equal(owners, []string{"bob"}) {
		t.Errorf("owners are %q", owners)
	}
	close(w.release)
	for range 2 {
		awaits(t, w.ended, "bob released")
	}
}
