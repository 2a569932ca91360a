package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// Agents finds the agents of a Boxwright release, for sdk.Config.Agents: the files
// boxwright-agent-linux-ARCH in folder or, when that is "", beside the boxwright that is found in PATH.
// Without any it returns core.ErrUnavailable.
func Agents(folder string) (map[string]string, error) {
	if folder == "" {
		program, err := exec.LookPath("boxwright")
		if err != nil {
			return nil, core.Errorf(core.ErrUnavailable, "there is no boxwright in PATH, so its agents are not found").
				WithHint("install Boxwright, or put the folder of its executables into PATH")
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return nil, core.Errorf(core.ErrUnavailable, "boxwright cannot be found: %w", err)
		}
		folder = filepath.Dir(program)
	}
	agents := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		path, err := filepath.Abs(filepath.Join(folder, "boxwright-agent-linux-"+arch))
		if err != nil {
			return nil, core.Errorf(core.ErrInternal, "the working directory cannot be found: %w", err)
		}
		if _, err := os.Stat(path); err == nil {
			agents[arch] = path
		}
	}
	if len(agents) == 0 {
		return nil, core.Errorf(core.ErrUnavailable, "there is no boxwright-agent-linux-* in %s", folder)
	}
	return agents, nil
}

// Env is an environment for executiontest.Checks in which b makes boxes of image with the real
// agent. It has the hooks that work on any engine; where Info admits that some limit does not
// hold, b itself serves as the weak engine.
func Env(ctx context.Context, b execution.Backend, image, instance string) (executiontest.Env, error) {
	info, err := b.Info(ctx)
	if err != nil {
		return executiontest.Env{}, err
	}
	env := executiontest.Env{Backend: b, Image: image, Instance: instance}
	env.Hooks = executiontest.Hooks{Answers: answers, Inside: inside, Expires: true}
	for _, limit := range core.AllLimits() {
		if info.Limits[limit] == core.EnforcedNot {
			env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) { return b, limit, nil }
			break
		}
	}
	return env, nil
}

// answers asks the agent at the other end who it is.
func answers(ctx context.Context, stream io.ReadWriteCloser) error {
	client := ttrpc.NewClient(asConn(stream))
	defer func() { _ = client.Close() }() // the stream is its owner's
	_, err := guestv1.NewGuestServiceClient(client).Describe(ctx, &guestv1.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("the agent does not answer: %w", wire.FromStatus(ctx, err))
	}
	return nil
}

// maxView bounds what a box tells of itself, in bytes.
const maxView = 256 << 10

// inside has the agent run its own executable, as a program that looks around.
func inside(ctx context.Context, stream io.ReadWriteCloser, folders []string) (in executiontest.Inside, err error) {
	client := ttrpc.NewClient(asConn(stream))
	defer func() { _ = client.Close() }() // the stream is its owner's
	exit, err := run(ctx, guestv1.NewGuestServiceClient(client), append([]string{core.GuestAgent, "inspect"}, folders...))
	if err != nil {
		return in, fmt.Errorf("looking around in the box: %w", err)
	}
	if exit.GetCode() != 0 {
		return in, fmt.Errorf("looking around in the box ended with %d: %s", exit.GetCode(), exit.GetStderr().GetHead())
	}
	return in, json.Unmarshal(exit.GetStdout().GetHead(), &in)
}

func run(ctx context.Context, client guestv1.GuestServiceClient, argv []string) (*guestv1.Exit, error) {
	stream, err := client.Run(ctx)
	if err != nil {
		return nil, wire.FromStatus(ctx, err)
	}
	spec := &guestv1.RunSpec{Id: "inspect", Argv: argv, OutputHead: maxView, TimeoutMs: executiontest.Timeout.Milliseconds()}
	for _, r := range []*guestv1.RunRequest{
		{Part: &guestv1.RunRequest_Spec{Spec: spec}}, {Part: &guestv1.RunRequest_Start{Start: true}},
	} {
		if err := stream.Send(r); err != nil {
			return nil, wire.FromStatus(ctx, err)
		}
	}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("the agent did not say how it ended")
		case err != nil:
			return nil, wire.FromStatus(ctx, err)
		case r.GetExit() != nil:
			return r.GetExit(), nil
		}
	}
}

// asConn makes a dialled stream what ttrpc wants; it sets no deadlines.
func asConn(stream io.ReadWriteCloser) net.Conn {
	if conn, ok := stream.(net.Conn); ok {
		return conn
	}
	return streamConn{stream}
}

type streamConn struct{ io.ReadWriteCloser }

// LocalAddr implements net.Conn.
func (streamConn) LocalAddr() net.Addr { return &net.UnixAddr{} }

// RemoteAddr implements net.Conn.
func (streamConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// SetDeadline implements net.Conn.
func (streamConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (streamConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (streamConn) SetWriteDeadline(time.Time) error { return nil }
