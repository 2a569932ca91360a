package mcphttp

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func FuzzMessages(f *testing.F) {
	f.Add([]byte(initializeBody), "", "", "")
	f.Add([]byte(modernCall(1, "who")), "", "2026-07-28", "tools/call")
	f.Add([]byte(cancelSeven), "x", "2025-11-25", "")
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`), "", "2026-07-29", "subscriptions/listen")
	w := newWorld(f, Options{})
	f.Fuzz(func(t *testing.T, body []byte, session, version, method string) {
		ctx, cancel := context.WithTimeout(core.WithPrincipal(t.Context(), core.Principal{ID: "ann"}), 50*time.Millisecond)
		defer cancel()
		for path, handler := range map[string]http.Handler{"/mcp": w.Streamable(), MessagesPath + "?session_id=x": w.Messages()} {
			r := httptest.NewRequestWithContext(ctx, "POST", path, bytes.NewReader(body))
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {method},
			}
			answered := httptest.NewRecorder()
			handler.ServeHTTP(answered, r)
			if answered.Code >= 500 {
				t.Errorf("%d %s", answered.Code, answered.Body)
			}
		}
	})
}
