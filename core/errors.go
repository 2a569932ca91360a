package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error. It is an error itself, so that errors.Is(err, core.ErrNotFound)
// tells the kind of any error of ours, also of one that crossed a wire.
type Kind string

// Error implements error.
func (k Kind) Error() string { return string(k) }

// The kinds. Callers branch on these and on nothing else: above the place where an
// outside error enters, nobody reads text, status codes or HTTP statuses.
const (
	// ErrInvalid: the request is wrong, and whoever made it can mend it.
	ErrInvalid Kind = "invalid"
	// ErrNotFound: what was named does not exist, or is not the caller's.
	ErrNotFound Kind = "not_found"
	// ErrDenied: the operator's policy forbids it.
	ErrDenied Kind = "denied"
	// ErrUnsupported: this backend or image cannot do it at all.
	ErrUnsupported Kind = "unsupported"
	// ErrUnavailable: an engine, plugin or box cannot be reached now; later it may.
	ErrUnavailable Kind = "unavailable"
	// ErrExhausted: a limit, a quota or a disk is full.
	ErrExhausted Kind = "exhausted"
	// ErrTimeout: an operation of ours took too long. A user's run that times out is a Record, not this.
	ErrTimeout Kind = "timeout"
	// ErrCancelled: the caller gave up.
	ErrCancelled Kind = "cancelled"
	// ErrDependency: packages could not be resolved or installed.
	ErrDependency Kind = "dependency"
	// ErrSessionExpired: the session is over, and with it its variables and files; a new one can be opened.
	ErrSessionExpired Kind = "session_expired"
	// ErrInternal: a fault of ours.
	ErrInternal Kind = "internal"
)

// Kinds lists every kind, for the tables that carry them over a wire and the tests of those tables.
func Kinds() []Kind {
	return []Kind{
		ErrInvalid, ErrNotFound, ErrDenied, ErrUnsupported, ErrUnavailable,
		ErrExhausted, ErrTimeout, ErrCancelled, ErrDependency,
		ErrSessionExpired, ErrInternal,
	}
}

// Error is an error with a kind, one plain sentence, and what to do next.
type Error struct {
	Kind    Kind
	Message string
	Hint    string // what to do next; may be empty
	Cause   error  // may be nil; never shown to a client on its own

	RetryAfter time.Duration // when to ask once more, as far as one can know; 0 says nothing
}

// Error returns the sentence, the cause if there is one, and the hint.
func (e *Error) Error() string {
	text := e.Message
	if e.Cause != nil && e.Cause.Error() != "" {
		text += ": " + e.Cause.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap lets errors.Is find both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Errorf makes an error of kind k. A %w in format becomes its cause's chain as with fmt.Errorf.
func Errorf(k Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: wrapped.Error(), Cause: silent(errors.Unwrap(wrapped))}
}

// WithHint returns a copy of e that says what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	hinted := *e
	hinted.Hint = fmt.Sprintf(format, args...)
	return &hinted
}

// WithRetryAfter returns a copy of e that says when to ask once more.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	dated := *e
	dated.RetryAfter = d
	return &dated
}

// KindOf names the kind of err: ErrInternal if it has none, "" if err is nil.
// The outermost kind wins: whoever wrapped the error last knew most about the caller.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	for _, k := range Kinds() {
		if errors.Is(err, k) {
			return k
		}
	}
	return ErrInternal
}

// HintOf returns the hint of the outermost error that has one.
func HintOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Hint != "" {
			return hintOf(e)
		}
		err = e.Cause
	}
	return ""
}

// RetryAfterOf returns when the outermost error that knows says to ask once more; 0 when none does.
func RetryAfterOf(err error) time.Duration {
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Cause) {
		if e.RetryAfter > 0 {
			return e.RetryAfter
		}
	}
	return 0
}

func hintOf(e *Error) string {
	if e == nil {
		return ""
	}
	return e.Hint
}

// MessageOf is the text of err without the hint of its outermost error.
func MessageOf(err error) string {
	if e, ok := err.(*Error); ok { //nolint:errorlint // only the outermost error's hint is left out
		bare := *e
		bare.Hint = ""
		return bare.Error()
	}
	return err.Error()
}

// silentError keeps a cause reachable for errors.Is without printing its text again:
// Errorf's message already holds it.
type silentError struct{ error }

func silent(err error) error {
	if err == nil {
		return nil
	}
	return silentError{err}
}

func (silentError) Error() string   { return "" }
func (s silentError) Unwrap() error { return s.error }

// ContextError is the error of a ctx that has ended: ErrTimeout or ErrCancelled.
func ContextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Errorf(ErrTimeout, "it took too long")
	}
	return Errorf(ErrCancelled, "the caller cancelled")
}

// HasKind reports whether err has a kind and a sentence already.
func HasKind(err error) bool {
	var known *Error
	return errors.As(err, &known)
}
