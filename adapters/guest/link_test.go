package guest_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/ttrpc"

	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	guestv1 "github.com/boxwright/boxwright/proto/boxwright/guest/v1"
	"github.com/boxwright/boxwright/proto/wire"
)

// peer is a backend whose box is a function at the other end of the stream.
type peer struct {
	execution.Backend
	serve func(net.Conn)
	dials atomic.Int32
}

func (p *peer) Dial(context.Context, string) (io.ReadWriteCloser, error) {
	if p.serve == nil {
		return nil, core.Errorf(core.ErrNotFound, "there is no such box")
	}
	p.dials.Add(1)
	ours, theirs := net.Pipe()
	go p.serve(theirs)
	return ours, nil
}

// stalling is an agent that answers Describe and nothing else.
type stalling struct{ guestv1.GuestServiceService }

func (stalling) Describe(context.Context, *guestv1.DescribeRequest) (*guestv1.DescribeResponse, error) {
	return &guestv1.DescribeResponse{}, nil
}

func (stalling) Run(ctx context.Context, _ guestv1.GuestService_RunServer) error { return wait(ctx) }

func (stalling) WriteFile(ctx context.Context, _ guestv1.GuestService_WriteFileServer) error {
	return wait(ctx)
}

func (stalling) Kill(ctx context.Context, _ *guestv1.KillRequest) (*guestv1.KillResponse, error) {
	return nil, wait(ctx)
}

func (stalling) ReadFile(ctx context.Context, _ *guestv1.ReadFileRequest) (*guestv1.ReadFileResponse, error) {
	return nil, wait(ctx)
}

func (stalling) ReadOutput(ctx context.Context, _ *guestv1.ReadOutputRequest) (*guestv1.ReadOutputResponse, error) {
	return nil, wait(ctx)
}

func (stalling) Attach(ctx context.Context, _ *guestv1.AttachRequest) (*guestv1.AttachResponse, error) {
	return nil, wait(ctx)
}

func (stalling) WriteStdin(ctx context.Context, _ *guestv1.WriteStdinRequest) (*guestv1.WriteStdinResponse, error) {
	return nil, wait(ctx)
}

func (stalling) Variables(ctx context.Context, _ *guestv1.VariablesRequest) (*guestv1.VariablesResponse, error) {
	return nil, wait(ctx)
}

func (stalling) ListFiles(ctx context.Context, _ *guestv1.ListFilesRequest) (*guestv1.ListFilesResponse, error) {
	return nil, wait(ctx)
}

func (stalling) RemoveFile(ctx context.Context, _ *guestv1.RemoveFileRequest) (*guestv1.RemoveFileResponse, error) {
	return nil, wait(ctx)
}

func (stalling) Preview(ctx context.Context, _ *guestv1.PreviewRequest) (*guestv1.PreviewResponse, error) {
	return nil, wait(ctx)
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// one is a listener of one connection.
type one struct {
	conns chan net.Conn
	net.Listener
}

func (o one) Accept() (net.Conn, error) {
	conn, ok := <-o.conns
	if !ok {
		return nil, io.EOF
	}
	return conn, nil
}

func (one) Close() error { return nil }

func serveStalling(conn net.Conn) { serve(conn, stalling{}) }

func serve(conn net.Conn, agent guestv1.GuestServiceService) {
	server, err := ttrpc.NewServer()
	if err != nil {
		return
	}
	guestv1.RegisterGuestServiceService(server, agent)
	conns := make(chan net.Conn, 1)
	conns <- conn
	_ = server.Serve(context.Background(), one{conns: conns})
}

// TestNothingWaitsForEver: whatever the box does, a call returns soon after its ctx.
func TestNothingWaitsForEver(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"reads nothing":   func(net.Conn) {},
		"answers nothing": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	} {
		t.Run("Connect/"+name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := guest.New().Connect(ctx, &peer{serve: serve}, "x"); core.KindOf(err) != core.ErrTimeout {
				t.Errorf("got %v", err)
			}
		})
	}
	g, err := guest.New().Connect(t.Context(), &peer{serve: serveStalling}, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for name, do := range map[string]func(context.Context) error{
		"Run": func(ctx context.Context) error { _, err := g.Run(ctx, python("1"), nil); return err },
		"ReadFile": func(ctx context.Context) error {
			_, err := g.ReadFile(ctx, "x", io.Discard, 1)
			return err
		},
		"ReadOutput": func(ctx context.Context) error {
			_, err := g.ReadOutput(ctx, "x", core.Stdout, io.Discard, 1)
			return err
		},
		"WriteFile":  func(ctx context.Context) error { return g.WriteFile(ctx, "x", strings.NewReader("x")) },
		"Attach":     func(ctx context.Context) error { _, err := g.Attach(ctx, "x"); return err },
		"Kill":       func(ctx context.Context) error { return g.Kill(ctx, "x") },
		"Output":     func(ctx context.Context) error { _, err := g.Output(ctx, "x", core.Stdout, 0, 1); return err },
		"WriteStdin": func(ctx context.Context) error { _, err := g.WriteStdin(ctx, "x", []byte("x"), true); return err },
		"Variables":  func(ctx context.Context) error { _, err := g.Variables(ctx); return err },
		"ListFiles":  func(ctx context.Context) error { _, err := g.ListFiles(ctx, "", true); return err },
		"RemoveFile": func(ctx context.Context) error { return g.RemoveFile(ctx, "x") },
		"Preview":    func(ctx context.Context) error { _, err := g.Preview(ctx, "x", 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := do(ctx); core.KindOf(err) != core.ErrTimeout {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestABrokenPeer(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"closes":       func(c net.Conn) { _ = c.Close() },
		"says garbage": func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("\xff", 1000))); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := guest.New().Connect(t.Context(), &peer{serve: serve}, "x"); core.KindOf(err) != core.ErrUnavailable {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := guest.New().Connect(t.Context(), &peer{}, "x"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("no box: %v", err)
	}
}

func TestClosed(t *testing.T) {
	p := &peer{serve: serveStalling}
	g, err := guest.New().Connect(t.Context(), p, "x")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = g.Close(), g.Close()
	if err := g.WriteFile(t.Context(), "x", strings.NewReader("x")); core.KindOf(err) != core.ErrUnavailable || p.dials.Load() != 1 {
		t.Errorf("got %v after %d dials", err, p.dials.Load())
	}
}

// running is an agent that says when a run has come.
type running struct {
	stalling
	came chan struct{}
}

func (r running) Run(ctx context.Context, _ guestv1.GuestService_RunServer) error {
	close(r.came)
	return wait(ctx)
}

// TestClosedWhileCodeRuns: nobody looks for the run any more, as nobody can.
func TestClosedWhileCodeRuns(t *testing.T) {
	agent := running{came: make(chan struct{})}
	p := &peer{serve: func(conn net.Conn) { serve(conn, agent) }}
	g, err := guest.New().Connect(t.Context(), p, "x")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-agent.came
		_ = g.Close()
	}()
	_, err = g.Run(t.Context(), python("1"), nil)
	if core.KindOf(err) != core.ErrUnavailable || strings.Contains(err.Error(), "the box was lost while the code ran") || p.dials.Load() != 1 {
		t.Errorf("got %v after %d dials", err, p.dials.Load())
	}
}

// busy is an agent that takes its time: it answers a read and an upload when it is told to.
type busy struct {
	stalling
	uploading, answer, gone chan struct{}
}

func (b busy) WriteFile(_ context.Context, stream guestv1.GuestService_WriteFileServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	close(b.uploading)
	<-b.answer
	if err := stream.Send(&guestv1.WriteFileResponse{}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err == io.EOF { //nolint:errorlint // ttrpc returns it bare
		close(b.gone)
	}
	return nil
}

func (b busy) ReadFile(context.Context, *guestv1.ReadFileRequest) (*guestv1.ReadFileResponse, error) {
	<-b.answer
	return &guestv1.ReadFileResponse{Data: []byte("x"), Eof: true}, nil
}

// TestAnUploadGivenUp leaves others alone, and the agent learns of it.
func TestAnUploadGivenUp(t *testing.T) {
	agent := busy{uploading: make(chan struct{}), answer: make(chan struct{}), gone: make(chan struct{})}
	p := &peer{serve: func(c net.Conn) { serve(c, agent) }}
	g, err := guest.New().Connect(t.Context(), p, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	read := make(chan error, 1)
	go func() {
		_, err := g.ReadFile(t.Context(), "x", io.Discard, 10)
		read <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-agent.uploading; cancel() }()
	if err := g.WriteFile(ctx, "x", strings.NewReader("x")); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("the upload: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	close(agent.answer)
	if err := <-read; err != nil || p.dials.Load() != 1 {
		t.Errorf("another's call: %v after %d dials", err, p.dials.Load())
	}
	select {
	case <-agent.gone:
	case <-time.After(10 * time.Second):
		t.Error("the agent still waits for the rest of the file")
	}
}

// once is an agent that answers Describe once and then falls silent.
type once struct {
	stalling
	asked atomic.Int32
}

func (o *once) Describe(ctx context.Context, _ *guestv1.DescribeRequest) (*guestv1.DescribeResponse, error) {
	if o.asked.Add(1) > 1 {
		return nil, wait(ctx)
	}
	return &guestv1.DescribeResponse{}, nil
}

// TestASilentAgent: when an upload gets no answer and the agent says nothing else either, it is dialled again.
func TestASilentAgent(t *testing.T) {
	t.Parallel()
	p := &peer{}
	p.serve = func(c net.Conn) {
		if p.dials.Load() == 1 {
			serve(c, &once{})
		}
		serveStalling(c)
	}
	g, err := guest.New().Connect(t.Context(), p, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for deadline := time.Now().Add(30 * time.Second); p.dials.Load() == 1; {
		if time.Now().After(deadline) {
			t.Fatal("the silent stream is still in use")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := g.WriteFile(ctx, "x", strings.NewReader("x")); err == nil {
			t.Error("the upload of nothing succeeded")
		}
		cancel()
	}
}

// refusing is an agent that takes no files.
type refusing struct{ stalling }

func (refusing) WriteFile(_ context.Context, stream guestv1.GuestService_WriteFileServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return wire.ToStatus(core.Errorf(core.ErrInvalid, "no files here"))
}

// deaf keeps the host's end of a stream from the agent, as if it came while the agent's own end was on its way.
type deaf struct {
	net.Conn
	frames io.Reader
}

func (d deaf) Read(p []byte) (int, error) { return d.frames.Read(p) }

func newDeaf(conn net.Conn) deaf {
	const headerLength, typeAt, flagsAt, data, noData = 10, 8, 9, 3, 4
	frames, w := io.Pipe()
	go func() {
		for header := make([]byte, headerLength); ; {
			if _, err := io.ReadFull(conn, header); err != nil {
				_ = w.CloseWithError(err)
				return
			}
			to := io.Writer(w)
			if header[typeAt] == data && header[flagsAt]&noData != 0 {
				to = io.Discard
			}
			_, _ = to.Write(header)
			_, _ = io.CopyN(to, conn, int64(binary.BigEndian.Uint32(header)))
		}
	}()
	return deaf{Conn: conn, frames: frames}
}

// TestARefusedUploadIsOver: the agent's error is the last that it says.
func TestARefusedUploadIsOver(t *testing.T) {
	g, err := guest.New().Connect(t.Context(), &peer{serve: func(c net.Conn) { serve(newDeaf(c), refusing{}) }}, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := g.WriteFile(ctx, "x", strings.NewReader("x")); core.KindOf(err) != core.ErrInvalid || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}

// TestStands: a guest knows without asking whether its stream has ended.
func TestStands(t *testing.T) {
	ends := make(chan struct{})
	g, err := guest.New().Connect(t.Context(), &peer{serve: func(conn net.Conn) {
		go func() { <-ends; _ = conn.Close() }()
		serveStalling(conn)
	}}, "x")
	if err != nil {
		t.Fatal(err)
	}
	standing := g.(execution.Standing)
	if !standing.Stands() {
		t.Error("it does not stand from the start")
	}
	close(ends)
	for deadline := time.Now().Add(10 * time.Second); standing.Stands(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it stands without a stream")
		}
	}
	_ = g.Close()
	if standing.Stands() {
		t.Error("it stands although it was closed")
	}
}
