// Command broken is a backend plugin that breaks one sentence of its port, the one that the setting
// "mutant" names: its boxes are the suite's fake ones, with an agent that speaks the guest protocol.
// Without the setting it keeps all of them.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/containerd/ttrpc"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
	"github.com/boxwright/boxwright/ports/execution/executiontest/mutants"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
)

func main() { sdk.Serve(open) }

type settings struct {
	Mutant string     `json:"mutant"`
	Weak   core.Limit `json:"weak"`
}

func open(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
	var s settings
	if err := sdk.DecodeSettings(cfg.Settings, &s); err != nil {
		return nil, err
	}
	fake := executiontest.NewFake()
	fake.Weak = s.Weak
	b := speaking{fake}
	if s.Mutant == "" {
		return b, nil
	}
	mutate, ok := mutants.All()[s.Mutant]
	if !ok {
		return nil, core.Errorf(core.ErrInvalid, "there is no mutant %q", s.Mutant)
	}
	return mutate(b), nil
}

// speaking is the fake backend with agents that speak the guest protocol.
type speaking struct{ *executiontest.Fake }

// Info names an image that the fake has.
func (s speaking) Info(ctx context.Context) (core.Info, error) {
	info, err := s.Fake.Info(ctx)
	info.DefaultImage = executiontest.FakeImage
	return info, err
}

// Dial puts an interpreter between the host and the fake agent, who knows lines only.
func (s speaking) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	lines, err := s.Fake.Dial(ctx, box)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	a := &agent{lines: lines, replies: make(chan string)}
	server, err := ttrpc.NewServer()
	if err != nil {
		return nil, err
	}
	guestv1.RegisterGuestServiceService(server, a)
	go server.Serve(context.Background(), &once{conn: theirs, closed: make(chan struct{})})
	go func() {
		a.read()
		theirs.Close()
		server.Close()
	}()
	return &closer{ours, lines}, nil
}

// closer closes the fake agent's stream too.
type closer struct {
	net.Conn
	lines io.Closer
}

func (c *closer) Close() error {
	c.lines.Close()
	return c.Conn.Close()
}

// agent interprets.
type agent struct {
	guestv1.GuestServiceService
	lines   io.ReadWriteCloser
	replies chan string
	asking  sync.Mutex
}

func (a *agent) read() {
	for lines := bufio.NewScanner(a.lines); lines.Scan(); {
		a.replies <- lines.Text()
	}
	close(a.replies)
}

func (a *agent) ask(line string) (string, error) {
	a.asking.Lock()
	defer a.asking.Unlock()
	if _, err := fmt.Fprintln(a.lines, line); err != nil {
		return "", err
	}
	reply, ok := <-a.replies
	if !ok {
		return "", io.EOF
	}
	return reply, nil
}

func (a *agent) Describe(context.Context, *guestv1.DescribeRequest) (*guestv1.DescribeResponse, error) {
	_, err := a.ask("ping")
	return &guestv1.DescribeResponse{}, err
}

// Run knows one program: the agent's own "inspect FOLDER...".
func (a *agent) Run(_ context.Context, stream guestv1.GuestService_RunServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	argv := first.GetSpec().GetArgv()
	if len(argv) < 2 || argv[1] != "inspect" {
		return fmt.Errorf("it cannot run %q", argv)
	}
	reply, err := a.ask("inside " + strings.Join(argv[2:], " "))
	if err != nil {
		return err
	}
	exit := &guestv1.Exit{Stdout: &guestv1.Output{Head: []byte(reply)}}
	return stream.Send(&guestv1.RunResponse{Event: &guestv1.RunResponse_Exit{Exit: exit}})
}

// once is a listener of one connection.
type once struct {
	conn   net.Conn
	taken  sync.Once
	ended  sync.Once
	closed chan struct{}
}

func (o *once) Accept() (conn net.Conn, err error) {
	o.taken.Do(func() { conn = o.conn })
	if conn == nil {
		<-o.closed
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (o *once) Close() error {
	o.ended.Do(func() { close(o.closed) })
	return nil
}

func (o *once) Addr() net.Addr { return o.conn.LocalAddr() }
