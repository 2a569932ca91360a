package sdk_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// dialer is a backend whose streams are the test's.
type dialer struct {
	execution.Backend
	dial func(context.Context, string) (io.ReadWriteCloser, error)
}

func (d dialer) Dial(ctx context.Context, box string) (io.ReadWriteCloser, error) {
	return d.dial(ctx, box)
}

// pipe returns a client's stream, and the backend's end of it.
func pipe(t *testing.T) (io.ReadWriteCloser, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	c := configured(t, dialer{executiontest.NewFake(), func(context.Context, string) (io.ReadWriteCloser, error) { return ours, nil }})
	stream, err := c.Dial(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close(); theirs.Close() })
	return stream, theirs
}

func TestStreamCarriesManyBytesBothWays(t *testing.T) {
	stream, agent := pipe(t)
	go io.Copy(agent, agent)
	sent := make([]byte, 5<<20)
	rand.Read(sent)
	go stream.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(stream, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("the bytes came back changed")
	}
}

func TestStreamEndsAfterItsLastByte(t *testing.T) {
	stream, agent := pipe(t)
	want := strings.Repeat("last words ", 20_000)
	go func() {
		io.WriteString(agent, want)
		agent.Close()
	}()
	got, err := io.ReadAll(stream)
	if err != nil || string(got) != want {
		t.Errorf("%d bytes of %d came, %v", len(got), len(want), err)
	}
	for range 1000 { // a write notices the end soon, not at once
		if _, err = stream.Write([]byte("x")); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("writing to an ended stream never fails")
}

func TestStreamClosedHereEndsThere(t *testing.T) {
	stream, agent := pipe(t)
	stream.Close()
	if _, err := io.ReadAll(agent); err != nil {
		t.Error(err)
	}
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reading a closed stream: %v", err)
	}
}

func TestStreamErrorArrives(t *testing.T) {
	ours, theirs := io.Pipe()
	c := configured(t, dialer{executiontest.NewFake(), func(context.Context, string) (io.ReadWriteCloser, error) {
		return struct {
			io.Reader
			io.WriteCloser
		}{ours, theirs}, nil
	}})
	stream, err := c.Dial(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	theirs.CloseWithError(core.Errorf(core.ErrUnavailable, "the agent is gone"))
	if _, err := io.ReadAll(stream); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), "the agent is gone") {
		t.Errorf("got %v", err)
	}
}

// endless counts what is read of it.
type endless struct {
	read   atomic.Int64
	closed chan struct{}
	once   sync.Once
}

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, io.EOF
	default:
		e.read.Add(int64(len(p)))
		return len(p), nil
	}
}

func (e *endless) Write(p []byte) (int, error) { return len(p), nil }

func (e *endless) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func TestSlowReaderStopsTheSender(t *testing.T) {
	source := &endless{closed: make(chan struct{})}
	c := configured(t, dialer{executiontest.NewFake(), func(context.Context, string) (io.ReadWriteCloser, error) { return source, nil }})
	stream, err := c.Dial(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	last := int64(-1)
	for now := source.read.Load(); now != last; now = source.read.Load() {
		last = now
		time.Sleep(100 * time.Millisecond)
	}
	if last > 16<<20 {
		t.Errorf("%d bytes were read ahead of a reader that does not read", last)
	}
}

func TestDialThatHangsRespectsItsCtx(t *testing.T) {
	ended := make(chan struct{})
	c := configured(t, dialer{executiontest.NewFake(), func(ctx context.Context, _ string) (io.ReadWriteCloser, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Dial(ctx, "box"); core.KindOf(err) != core.ErrTimeout {
		t.Errorf("got %v", err)
	}
	<-ended
}

// failing is a backend all of whose methods fail with one error.
type failing struct {
	execution.Backend
	err error
}

func (f failing) Destroy(context.Context, string) error { return f.err }

func (f failing) Dial(context.Context, string) (io.ReadWriteCloser, error) { return nil, f.err }

func (f failing) EnsureImage(context.Context, string, core.PullPolicy, func(core.Progress)) (core.Image, error) {
	return core.Image{}, f.err
}

func TestEveryKindSurvives(t *testing.T) {
	for _, kind := range core.Kinds() {
		c := configured(t, failing{executiontest.NewFake(), fmt.Errorf("outer: %w", core.Errorf(kind, "the sentence").WithHint("the hint"))})
		_, dialErr := c.Dial(t.Context(), "x")
		_, imageErr := c.EnsureImage(t.Context(), "x", "", nil)
		for what, err := range map[string]error{"Destroy": c.Destroy(t.Context(), "x"), "Dial": dialErr, "EnsureImage": imageErr} {
			if core.KindOf(err) != kind || core.HintOf(err) != "the hint" || !strings.Contains(err.Error(), "the sentence") {
				t.Errorf("%s: %s came back as %s: %v", what, kind, core.KindOf(err), err)
			}
		}
	}
}
