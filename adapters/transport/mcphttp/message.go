package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// message is what the guard has to know of one: the library reads it again, by the same rules.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`

	raw       []byte
	modern    bool            // of a revision without sessions
	withdrawn json.RawMessage // the id of the call that a cancellation is of
}

// Methods that are looked at.
const (
	methodInitialize = string(mcp.MethodInitialize)
	methodListen     = string(mcp.MethodSubscriptionsListen)
	methodCancelled  = "notifications/cancelled"
)

// readMessage reads the body. Its error is core.ErrInvalid, or ErrExhausted if it is too long.
func readMessage(r *http.Request) (message, error) {
	raw, err := io.ReadAll(r.Body)
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return message{}, longError{tooLong.Limit}
	}
	if errors.Is(err, core.ErrUnavailable) { // there is no room for it
		return message{}, err
	}
	if err != nil {
		return message{}, core.Errorf(core.ErrInvalid, "the request did not come whole")
	}
	m := message{raw: raw, modern: mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))}
	if json.Unmarshal(raw, &m) != nil {
		return m, noMessageError{}
	}
	var called struct {
		Params struct {
			Meta      *mcp.Meta       `json:"_meta"`
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &called) == nil {
		m.modern = m.modern || mcp.IsModernProtocol(called.Params.Meta.ProtocolVersion())
		m.withdrawn = called.Params.RequestID
	}
	r.Body = &passing{bytes.NewReader(raw)}
	return m, nil
}

// passing is a body that is let go of once it was read: the call goes on for longer.
type passing struct{ left *bytes.Reader }

func (p *passing) Read(into []byte) (int, error) {
	n, err := p.left.Read(into)
	if err != nil {
		p.left.Reset(nil)
	}
	return n, err
}

func (p *passing) Close() error { return nil }

// longError is a body beyond its limit, in bytes.
type longError struct{ limit int64 }

func (e longError) Error() string {
	return "the request is longer than " + core.FormatBytes(e.limit) + "; write big files in parts"
}

// noMessageError is a body that is no JSON-RPC message.
type noMessageError struct{}

func (noMessageError) Error() string { return "the request is not a JSON-RPC message" }

// refuse answers a request that goes no further.
func refuse(w http.ResponseWriter, err error) {
	if after := core.RetryAfterOf(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())+1))
	}
	if _, ok := errors.AsType[noMessageError](err); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the request is not a JSON-RPC message"}}`+"\n")
		return
	}
	http.Error(w, err.Error(), status(err))
}

func status(err error) int {
	if _, ok := errors.AsType[longError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch {
	case errors.Is(err, core.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, core.ErrDenied):
		return http.StatusUnauthorized
	case errors.Is(err, core.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, core.ErrExhausted):
		return http.StatusTooManyRequests
	case errors.Is(err, core.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
