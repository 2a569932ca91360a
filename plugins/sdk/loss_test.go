package sdk_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
)

// late is a backend whose Create does not look at its ctx before it returns.
type late struct {
	*executiontest.Fake
	begun chan struct{}
}

func (l late) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	close(l.begun)
	<-ctx.Done()
	return l.Fake.Create(context.WithoutCancel(ctx), spec)
}

func TestBoxThatComesTooLateIsDestroyed(t *testing.T) {
	fake := executiontest.NewFake()
	destroyed := make(chan string, 1)
	b := late{fake, make(chan struct{})}
	c := configured(t, watched{b, destroyed})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-b.begun; cancel() }()
	_, err := c.Create(ctx, core.BoxSpec{Image: executiontest.FakeImage, Limits: core.DefaultLimits(), Labels: core.Labels{Instance: "i"}})
	if core.KindOf(err) != core.ErrCancelled {
		t.Fatalf("got %v", err)
	}
	select {
	case <-destroyed:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody destroyed it")
	}
	have, err := fake.List(t.Context(), "i")
	if err != nil || len(have.Boxes) > 0 {
		t.Errorf("left are %+v, %v", have.Boxes, err)
	}
}

// watched tells which box was destroyed.
type watched struct {
	execution.Backend
	destroyed chan string
}

func (w watched) Destroy(ctx context.Context, box string) error {
	err := w.Backend.Destroy(ctx, box)
	w.destroyed <- box
	return err
}

// foreign is a plugin whose author knows gRPC, and nothing of this SDK's details.
type foreign struct {
	backendv1.UnimplementedBackendServiceServer
	code codes.Code
}

func (f foreign) Destroy(context.Context, *backendv1.DestroyRequest) (*backendv1.DestroyResponse, error) {
	return nil, status.Error(f.code, "the engine is off")
}

func (f foreign) Dial(stream grpc.BidiStreamingServer[backendv1.DialRequest, backendv1.DialResponse]) error {
	if r, err := stream.Recv(); err != nil || r.GetBox() != "hang" {
		return status.Error(f.code, "the engine is off")
	}
	stream.Send(&backendv1.DialResponse{})
	<-stream.Context().Done()
	return nil
}

func TestOnlyABrokenConnectionIsLost(t *testing.T) {
	for code, kind := range map[codes.Code]core.Kind{codes.Unavailable: core.ErrUnavailable, codes.Canceled: core.ErrCancelled} {
		server := grpc.NewServer()
		backendv1.RegisterBackendServiceServer(server, foreign{code: code})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(listener)
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(); server.Stop() })
		c := sdk.NewClient(conn)
		_, dialErr := c.Dial(t.Context(), "box")
		for what, err := range map[string]error{"Destroy": c.Destroy(t.Context(), "box"), "Dial": dialErr} {
			if sdk.IsLost(err) || core.KindOf(err) != kind || !strings.Contains(err.Error(), "the engine is off") {
				t.Errorf("%s, %s: got %s: %v", what, code, core.KindOf(err), err)
			}
		}
		stream, err := c.Dial(t.Context(), "hang")
		if err != nil {
			t.Fatal(err)
		}
		server.Stop()
		_, readErr := io.ReadAll(stream)
		for what, err := range map[string]error{"the stream": readErr, "the next call": c.Destroy(t.Context(), "box")} {
			if !sdk.IsLost(err) || core.KindOf(err) != core.ErrUnavailable {
				t.Errorf("%s after the server's end: %v", what, err)
			}
		}
	}
}
