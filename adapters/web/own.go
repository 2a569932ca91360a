package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// mcpPath is the resource that tokens are for, and metadataPath where RFC 9728 has it described.
const (
	mcpPath      = "mcp"
	metadataPath = ".well-known/oauth-protected-resource"
	healthPath   = "/healthz"
	readyPath    = "/readyz"
)

// readyTime bounds how long /readyz waits for an engine.
const readyTime = 3 * time.Second

// isProbe reports whether a request is what asks for a server's health, often by its address: the answers are the
// same for everybody.
func isProbe(r *http.Request) bool { return r.URL.Path == healthPath || r.URL.Path == readyPath }

// ownRoutes are those that every server has.
func (s *Server) ownRoutes() []Route {
	routes := []Route{
		{Pattern: "GET " + healthPath, Open: true, Handler: http.HandlerFunc(s.health)},
		{Pattern: "GET " + readyPath, Open: true, Handler: http.HandlerFunc(s.ready)},
	}
	if len(s.options.AuthorizationServers) > 0 && s.options.PublicURL != nil {
		for _, path := range []string{metadataPath, metadataPath + "/" + mcpPath} {
			routes = append(routes, Route{Pattern: "GET /" + path, Open: true, Handler: http.HandlerFunc(s.metadata)})
		}
	}
	return routes
}

// health answers as long as the process does.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"status": "ok"})
}

// ready tells whether calls can be served: not while the server ends, nor without an engine. What is wrong with the
// engine is in the log: anybody may ask here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	switch {
	case s.isDraining.Load():
		answer(w, http.StatusServiceUnavailable, map[string]any{"status": "ending"})
	case s.unready(ctx):
		answer(w, http.StatusServiceUnavailable, map[string]any{"status": "no engine"})
	default:
		answer(w, http.StatusOK, map[string]any{"status": "ready"})
	}
}

func (s *Server) unready(ctx context.Context) bool {
	if s.options.Ready == nil {
		return false
	}
	err := s.options.Ready(ctx)
	if err != nil {
		s.options.Log.Warn("the server is not ready", "error", err)
	}
	return err != nil
}

// metadata is the protected resource's, by RFC 9728.
func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"resource":                 s.options.PublicURL.JoinPath(mcpPath).String(),
		"resource_name":            "Boxwright",
		"authorization_servers":    s.options.AuthorizationServers,
		"bearer_methods_supported": []string{"header"},
	})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // whoever asked may be gone
}
