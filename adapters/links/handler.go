package links

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

// Options say what links lead to.
type Options struct {
	Signer *Signer
	Store  artifact.Store
	// Revoked tells since when links to a run's files are no longer good; the zero time: they are. nil: they
	// all are.
	Revoked func(ctx context.Context, run string) (time.Time, error)
	// Upload puts a file into a sandbox's workspace, all of it or nothing. nil: nothing can be put anywhere.
	Upload func(ctx context.Context, r core.FileRequest, content io.Reader, size int64) error
	// MaxUpload bounds what is put, in bytes.
	MaxUpload int64
	Log       *slog.Logger
}

// Handler serves links. Nothing but the link itself is asked of who follows one, and no cookie is looked at, so
// that it may stand at an origin of its own.
func Handler(o Options) http.Handler {
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+filesPath+"{place}/{name...}", h.file)
	mux.HandleFunc("GET "+archivesPath+"{place}", h.archive)
	mux.HandleFunc("PUT "+uploadsPath+"{place}/{name...}", h.upload)
	return mux
}

// Patterns are of the requests that the handler is for, as http.ServeMux understands them.
func Patterns() []string {
	return []string{"GET " + filesPath, "GET " + archivesPath, "PUT " + uploadsPath}
}

type handler struct{ Options }

// file sends a file of a run, or the ranges of it that are wanted.
func (h *handler) file(w http.ResponseWriter, r *http.Request) {
	run, name := r.PathValue("place"), r.PathValue("name")
	until, err := h.follow(r, target{kind: filesPath, place: run, name: name})
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	f, known, err := h.Store.Open(r.Context(), run, name)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	h.headers(w.Header(), lastElement(name), known.MIMEType, until)
	if known.SHA256 != "" {
		w.Header().Set("ETag", `"`+known.SHA256+`"`)
	}
	to, end := patient(w)
	defer end()
	if wanted := r.Header.Get("Range"); wanted != "" {
		r.Header.Set("Range", emptySuffix.ReplaceAllString(wanted, "${1}"+beyondAll))
	}
	http.ServeContent(to, r, "", known.Created, f)
}

// The library sends the last 0 bytes of a file, which are no range of it; what begins beyond all files it refuses.
var emptySuffix = regexp.MustCompile(`([=,][ \t]*)-0+\b`)

const beyondAll = "9223372036854775807-"

// follow checks that a link is good, and tells how long it is.
func (h *handler) follow(r *http.Request, t target) (until time.Time, err error) {
	issued, until, err := h.Signer.check(t, r.URL.RawQuery)
	if err != nil || h.Revoked == nil || t.kind == uploadsPath {
		return until, err
	}
	since, err := h.Revoked(r.Context(), t.place)
	if err == nil && !since.IsZero() && !issued.After(since) {
		err = core.Errorf(core.ErrNotFound, "this link was withdrawn").WithHint("ask for a new link")
	}
	return until, err
}

// headers keep a browser from running what a stranger's program wrote, and from telling others where it lies.
func (h *handler) headers(header http.Header, name, mimeType string, until time.Time) {
	header.Set("Content-Type", mimeType)
	header.Set("Content-Disposition", disposition(name))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Cross-Origin-Resource-Policy", "same-site")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Expires", until.UTC().Format(http.TimeFormat))
}

// disposition has the name as it is for all who can read it, and a plain one for others. Both are without what
// would end the header or turn the name around.
func disposition(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == '/', r == '\\':
			return '_'
		}
		return r
	}, name)
	if clean == "" || strings.Trim(clean, ".") == "" {
		clean = "file"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": clean})
}

func lastElement(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// upload puts the request's body into a sandbox's workspace.
func (h *handler) upload(w http.ResponseWriter, r *http.Request) {
	owner, sandbox, name := r.URL.Query().Get(ownerParam), r.PathValue("place"), r.PathValue("name")
	_, err := h.follow(r, target{kind: uploadsPath, owner: owner, place: sandbox, name: name})
	switch {
	case err != nil:
	case h.Upload == nil:
		err = core.Errorf(core.ErrUnsupported, "files cannot be put here")
	case r.ContentLength > h.MaxUpload:
		err = tooBig(h.MaxUpload)
	default:
		body := http.MaxBytesReader(w, r.Body, h.MaxUpload)
		err = h.Upload(r.Context(), core.FileRequest{Tenant: owner, Sandbox: sandbox, Path: name}, body, r.ContentLength)
		if _, tooMuch := errors.AsType[*http.MaxBytesError](err); tooMuch {
			err = tooBig(h.MaxUpload)
		}
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func tooBig(most int64) error {
	return core.Errorf(core.ErrExhausted, "the file is too big; at most %d bytes are taken", most)
}

// refuse answers with a sentence, and never with what the server knows besides.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	kind, text := core.KindOf(err), err.Error()
	if kind == core.ErrInternal {
		h.Log.ErrorContext(r.Context(), "a link could not be served", "path", r.URL.Path, "error", err)
		text = "the server could not do this; its log says why"
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Cache-Control", "no-store")
	if kind == core.ErrUnavailable {
		header.Set("Retry-After", "5")
	}
	http.Error(w, text, statusOf(kind))
}

func statusOf(kind core.Kind) int {
	switch kind {
	case core.ErrInvalid:
		return http.StatusBadRequest
	case core.ErrDenied:
		return http.StatusForbidden
	case core.ErrNotFound, core.ErrSessionExpired:
		return http.StatusNotFound
	case core.ErrExhausted:
		return http.StatusRequestEntityTooLarge
	case core.ErrUnsupported:
		return http.StatusNotImplemented
	case core.ErrUnavailable, core.ErrTimeout:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
