package executiontest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// FakeEnv is an environment around f. through is how the checks reach a fake: the fake itself,
// or a client of something that serves it.
func FakeEnv(f *Fake, through func(execution.Backend) execution.Backend) Env {
	env := RemoteFakeEnv(through(f))
	env.Hooks.Fail = f.Fail
	env.Hooks.ForeignBox = f.foreignBox
	env.Hooks.ForeignVolume = f.foreignVolume
	env.Hooks.Registry = func(context.Context) (Fetchable, error) {
		return Fetchable{Ref: FakeRemoteImage, Fetches: f.countFetches}, nil
	}
	env.Hooks.Weak = func(context.Context) (execution.Backend, core.Limit, error) {
		weak := NewFake()
		weak.Weak = core.LimitCPU
		return through(weak), core.LimitCPU, nil
	}
	env.Hooks.Down = func(context.Context) (execution.Backend, func() error, error) {
		down := NewFake()
		down.SetDown(true)
		return through(down), func() error { down.SetDown(false); return nil }, nil
	}
	return env
}

// RemoteSkips are the checks that RemoteFakeEnv has no hook for.
func RemoteSkips() []string {
	return []string{
		"image/not-fetched", "image/always", "image/progress",
		"create/unenforced-refuse", "create/unenforced-warn", "create/all-or-nothing",
		"destroy/foreign", "volume/foreign", "common/unavailable",
	}
}

// RemoteFakeEnv is an environment around a fake of which only the backend can be reached.
func RemoteFakeEnv(b execution.Backend) Env {
	return Env{Backend: b, Image: FakeImage, Instance: NewInstance(), Hooks: Hooks{
		MissingImage: "registry.example/missing:1",
		Answers: func(_ context.Context, stream io.ReadWriteCloser) error {
			reply, err := ask(stream, "ping")
			if err == nil && reply != "pong" {
				return fmt.Errorf("it said %q", reply)
			}
			return err
		},
		Inside: func(_ context.Context, stream io.ReadWriteCloser, folders []string) (in Inside, err error) {
			reply, err := ask(stream, "inside "+strings.Join(folders, " "))
			if err != nil {
				return in, err
			}
			return in, json.Unmarshal([]byte(reply), &in)
		},
		Stop: func(ctx context.Context, box string) error {
			stream, err := b.Dial(ctx, box)
			if err != nil {
				return err
			}
			defer closing(stream)
			_, _ = ask(stream, "stop") // it ends without an answer
			return nil
		},
	}}
}

// ask sends one line and reads one.
func ask(stream io.ReadWriter, line string) (string, error) {
	if _, err := fmt.Fprintln(stream, line); err != nil {
		return "", err
	}
	reply, err := bufio.NewReader(stream).ReadString('\n')
	return strings.TrimSuffix(reply, "\n"), err
}

func (f *Fake) countFetches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fetches
}

func (f *Fake) foreignBox(context.Context) (Foreign, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const id = "foreign"
	f.boxes[id] = &fakeBox{foreign: true, Box: core.Box{ID: id, State: core.BoxRunning}, ended: make(chan struct{})}
	return Foreign{ID: id, Exists: func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_, ok := f.boxes[id]
		return ok, nil
	}}, nil
}

func (f *Fake) foreignVolume(context.Context) (Foreign, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const name = "foreign"
	f.volumes[name] = &fakeVolume{foreign: true, Volume: core.Volume{Name: name}}
	return Foreign{ID: name, Exists: func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_, ok := f.volumes[name]
		return ok, nil
	}}, nil
}
