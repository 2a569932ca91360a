package auth

import (
	"encoding/json"
	"net/http"

	"github.com/boxwright/boxwright/core"
)

// redemption is the body of a request for the first administrator's key.
type redemption struct {
	Token string `json:"token"`
	Name  string `json:"name"`
}

// setupForm is what a request looks like.
const setupForm = `send {"token": "bxw_setup_…", "name": "ann"}, as application/json`

// ServeHTTP answers a POST of a token and a name with the first administrator's key. It is for a route that is open
// to everybody, behind a guard that bounds bodies and how often one may ask.
func (s Setup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed, fault("invalid", "send the token and a name by POST", ""))
		return
	}
	var asked redemption
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxToken))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		answer(w, http.StatusBadRequest, fault("invalid", "the body is not an object with token and name", setupForm))
		return
	}
	if asked.Token == "" {
		answer(w, http.StatusBadRequest, fault("invalid", "the body lacks its token", setupForm))
		return
	}
	admin, key, err := s.Redeem(r.Context(), asked.Token, asked.Name)
	if err != nil {
		answer(w, statusOf(err), fault(string(core.KindOf(err)), core.MessageOf(err), core.HintOf(err)))
		return
	}
	answer(w, http.StatusCreated, map[string]string{"user": admin.Name, "user_id": admin.ID, "key": key})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever does not wait for it is gone
}

func fault(kind, message, hint string) map[string]any {
	return map[string]any{"error": map[string]string{"type": kind, "message": message, "hint": hint}}
}

func statusOf(err error) int {
	switch core.KindOf(err) {
	case core.ErrInvalid:
		return http.StatusBadRequest
	case core.ErrDenied:
		return http.StatusForbidden
	default:
		return http.StatusServiceUnavailable
	}
}
