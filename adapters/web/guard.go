package web

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/boxwright/boxwright/core"
)

const (
	// readTime is how long the next part of a body may take.
	readTime = 30 * time.Second
	// restTime is how long what nobody read of a body may take: the library reads some of it before it goes on.
	restTime = 5 * time.Second
	// maxLoggedPath is how much of a path the log has, in bytes.
	maxLoggedPath = 200
)

// behind puts the rest of the guard before a route. Every request of every method goes through all of it, in this
// order: what costs least is asked first, and a body is only read from somebody who is known.
func (s *Server) behind(route Route) http.Handler {
	if route.BodyLimit == 0 {
		route.BodyLimit = s.options.BodyLimit
	}
	if route.Types == nil {
		route.Types = []string{"application/json"}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.checkOrigin(r, route.Open)
		if err == nil && s.hosts.originOf(r) == alliedPage && share(w, r) {
			return
		}
		if err == nil {
			r, err = s.identify(r, route.Open)
		}
		release := func() {}
		if err == nil {
			release, err = s.takeBody(w, r, route)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer release()
		route.Handler.ServeHTTP(w, r)
	})
}

// refusal is why a request goes no further. Others are errors of a kind.
type refusal struct {
	status  int
	message string
	token   string // the error of RFC 6750, for WWW-Authenticate
	retry   time.Duration
}

func (r *refusal) Error() string { return r.message }

func refusef(status int, format string, args ...any) *refusal {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

// checkOrigin refuses pages of origins that are not allowed. A link on any site may lead to an open route.
func (s *Server) checkOrigin(r *http.Request, open bool) error {
	if s.hosts.originOf(r) != otherPage || open && isNavigation(r) {
		return nil
	}
	if r.Header.Get("Origin") == "" {
		return refusef(http.StatusForbidden, "pages of other sites may not use this server")
	}
	return refusef(http.StatusForbidden, "pages of %.100q may not use this server; its operator can add that to http.allowed_origins", r.Header.Get("Origin"))
}

func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// takeBody bounds what a request brings until release is called, and refuses what the route is not for: a form on a
// page of another site can send text, but no JSON.
func (s *Server) takeBody(w http.ResponseWriter, r *http.Request, route Route) (release func(), err error) {
	if r.ContentLength == 0 && r.Method != http.MethodPost {
		return func() {}, nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if !slices.Contains(route.Types, AnyType) && (err != nil || !slices.Contains(route.Types, kind)) {
		return nil, refusef(http.StatusUnsupportedMediaType, "the Content-Type is %.100q, but must be %s", r.Header.Get("Content-Type"), route.Types[0])
	}
	if r.ContentLength > route.BodyLimit {
		return nil, tooLong(route.BodyLimit)
	}
	bounded := &body{ReadCloser: http.MaxBytesReader(w, r.Body, route.BodyLimit), control: http.NewResponseController(w)}
	r.Body = bounded
	if route.Streamed {
		return func() {}, nil
	}
	return s.hold(r, bounded)
}

func tooLong(limit int64) error {
	return refusef(http.StatusRequestEntityTooLarge, "the request is longer than %s; write big files in parts", core.FormatBytes(limit))
}

// boundRest lets what nobody read of a body hold the connection no longer than restTime.
func boundRest(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime))
	}
}

// refuse answers with the one sentence of err, and is done with the connection: what is still to come on it is not
// wanted.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused := s.refusalOf(err)
	w.Header().Set("Connection", "close")
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", s.challenge(refused))
	}
	if refused.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(refused.retry.Seconds())+1))
	}
	level := slog.LevelInfo
	if refused.status == http.StatusForbidden {
		level = slog.LevelDebug // nobody knows who sends it; it may be many
	}
	s.options.Log.Log(r.Context(), level, "a request was refused", "status", refused.status, "why", refused.message,
		"method", r.Method, "path", r.URL.Path[:min(len(r.URL.Path), maxLoggedPath)], "from", s.address(r))
	http.Error(w, refused.message, refused.status)
}

// refusalOf is the answer to an error of the guard or of the Authenticator. Why a credential does not count is for
// whoever showed it; what is wrong with us is not.
func (s *Server) refusalOf(err error) *refusal {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	switch core.KindOf(err) {
	case core.ErrDenied, core.ErrInvalid, core.ErrNotFound:
		return &refusal{status: http.StatusUnauthorized, message: "the key or token does not count: " + err.Error(), token: "invalid_token"}
	case core.ErrExhausted:
		return &refusal{status: http.StatusTooManyRequests, message: err.Error(), retry: max(core.RetryAfterOf(err), time.Second)}
	case core.ErrUnavailable, core.ErrTimeout, core.ErrCancelled:
		s.options.Log.Warn("nobody can be authenticated", "error", err)
		return &refusal{status: http.StatusServiceUnavailable, message: "who calls cannot be found out now", retry: 5 * time.Second}
	default:
		s.options.Log.Error("nobody can be authenticated", "error", err)
		return refusef(http.StatusInternalServerError, "who calls cannot be found out, by a fault of this server")
	}
}
