package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/mcp"
	"github.com/boxwright/boxwright/adapters/storage/disk"
)

// served is a server on the loopback whose clients have to say who they are.
type served struct {
	t   *testing.T
	url string
	log *lockedText
}

// lockedText is what several write at the same time.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func serveWithKeys(t *testing.T, dir string) *served {
	t.Helper()
	c := config.Default()
	c.Transport, c.HTTP.Listen, c.Auth.Mode = config.TransportHTTP, "127.0.0.1:0", config.AuthKeys
	c.Storage.Dir, c.Files.Dir = dir, dir+"/files"
	s := &served{t: t, log: &lockedText{}}
	system := &system{log: slog.New(slog.NewTextHandler(s.log, nil))} // what needs no engine
	instance, err := disk.OpenInstance(dir)
	if err != nil {
		t.Fatal(err)
	}
	system.instance = instance
	if err := system.openStores(c, ""); err != nil {
		t.Fatal(err)
	}
	if system.auth, err = newAuthenticator(c.Auth, system.identity, system.log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	server := mcp.New(nil, mcp.Options{Tenant: localTenant, Server: "s", Log: slog.New(slog.DiscardHandler)})
	remote, err := openHTTP(ctx, c, system, server, system.authenticator())
	if err != nil {
		t.Fatal(err)
	}
	if err := system.offerSetup(ctx, c.Auth); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- remote.serve(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = system.database.Close()
		_ = instance.Close()
	})
	s.url = "http://" + remote.listener.Addr().String()
	return s
}

// post sends a body with a key, if there is one, and returns the status and the answer.
func (s *served) post(path, key, body string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// TestServerAsksWhoCalls: from the token that it prints to a key that was taken back.
func TestServerAsksWhoCalls(t *testing.T) {
	s := newShell(t)
	server := serveWithKeys(t, s.dir)
	if status, answer := server.post("/mcp", "", initialize); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", status, answer)
	}
	token := regexp.MustCompile(`bxw_setup_\w+`).FindString(server.log.String())
	if status, answer := server.post("/mcp", token, initialize); status != http.StatusUnauthorized {
		t.Errorf("with the token of the setup: %d %s", status, answer)
	}
	status, answer := server.post("/setup", "", `{"token": "`+token+`", "name": "root"}`)
	key := regexp.MustCompile(`bxw_[a-z0-9]+_\w+`).FindString(answer)
	if status != http.StatusCreated || key == "" {
		t.Fatalf("the setup: %d %s", status, answer)
	}
	if status, answer := server.post("/mcp", key, initialize); status != http.StatusOK || !strings.Contains(answer, "boxwright") {
		t.Errorf("with the key: %d %s", status, answer)
	}
	if status, answer := server.post("/setup", "", `{"token": "`+token+`", "name": "root2"}`); status != http.StatusForbidden {
		t.Errorf("the setup once more: %d %s", status, answer)
	}
	s.run("users add ann")
	ann := strings.TrimSpace(s.run("keys create ann"))
	s.run("keys revoke " + ann[:16])
	if status, answer := server.post("/mcp", ann, initialize); status != http.StatusUnauthorized {
		t.Errorf("with a revoked key: %d %s", status, answer)
	}
}
