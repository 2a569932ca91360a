//go:build remote && containers_image_openpgp

package podman

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemon"
)

// Dial implements execution.Backend: an exec of the agent's dial command, which is a pipe to the
// agent's socket.
func (b *Backend) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	if !daemon.IsID(box) {
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	e, err := b.finder.Find(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := e.quick(ctx)
	defer cancel()
	if err := e.checkMine(ctx, box); err != nil {
		return nil, e.dialError(ctx, err)
	}
	exec, err := e.newExec(ctx, box)
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	stream, err := e.attach(ctx, exec)
	if err != nil {
		return nil, e.dialError(ctx, err)
	}
	return stream, nil
}

func (e *engine) newExec(ctx context.Context, box string) (string, error) {
	body, err := json.Marshal(map[string]any{
		"User":         fmt.Sprintf("%d:%d", core.DialUID, core.DialGID),
		"AttachStdin":  true,
		"AttachStdout": true,
		"AttachStderr": true,
		"Cmd":          []string{core.GuestAgent, "dial"},
	})
	if err != nil {
		return "", err
	}
	response, err := e.api.DoRequest(ctx, bytes.NewReader(body), http.MethodPost, "/containers/%s/exec", nil, nil, box)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	var made struct {
		ID string `json:"Id"`
	}
	err = response.Process(&made)
	if err == nil && !daemon.IsID(made.ID) { // it becomes a part of a URL
		err = errors.New("the engine gave an exec no id")
	}
	return made.ID, err
}

// attach starts the exec on a connection of its own, which the engine then turns into the exec's
// streams. The bindings' own function copies between streams of its caller's, and leaves a
// goroutine behind that waits for input.
func (e *engine) attach(ctx context.Context, exec string) (*daemon.Stream, error) {
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends what waits on it
	stream, err := upgrade(conn, exec)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // err says more
		return nil, err
	}
	return stream, nil
}

func (e *engine) dial(ctx context.Context) (net.Conn, error) {
	network, address, _ := strings.Cut(e.host, "://")
	return (&net.Dialer{}).DialContext(ctx, network, strings.TrimSuffix(address, "/"))
}

// upgrade asks the engine to turn the connection into the exec's streams.
func upgrade(conn net.Conn, exec string) (*daemon.Stream, error) {
	body := strings.NewReader(`{"Detach":false,"Tty":false}`)
	//nolint:gosec // it goes over conn; exec is an id
	request, err := http.NewRequest(http.MethodPost, "http://d/v"+apiVersion+"/libpod/exec/"+exec+"/start", body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request) //nolint:bodyclose // an upgraded connection has no body
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols && response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	return daemon.NewStream(conn, reader), nil
}

// apiVersion is the oldest version of the API that the bindings take.
const apiVersion = "4.0.0"

const maxRefusal = 64 << 10

func refusal(response *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return err
	}
	answer := &errorhandling.ErrorModel{}
	if json.Unmarshal(raw, answer) != nil || answer.Message == "" {
		answer.Message = response.Status
	}
	answer.ResponseCode = response.StatusCode
	return answer
}

func (e *engine) dialError(ctx context.Context, err error) error {
	switch {
	case isNotFound(err):
		return core.Errorf(core.ErrNotFound, "there is no such box")
	case isConflict(err):
		return core.Errorf(core.ErrUnavailable, "the box has stopped")
	}
	return e.fail(ctx, err, "the box could not be reached")
}
