package mutants

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

func dialBreakers() map[string]func(execution.Backend) Mutant {
	return map[string]func(execution.Backend) Mutant{
		"dial/unknown": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			if box == "" {
				return nil, core.Errorf(core.ErrInvalid, "no box was named")
			}
			return b.Dial(ctx, box)
		}),
		"dial/stopped": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if core.KindOf(err) == core.ErrUnavailable && core.HintOf(err) == "" {
				err = core.Errorf(core.ErrNotFound, "no")
			}
			return s, err
		}),
		"dial/ctx": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = s.Close() })
			}
			return s, err
		}),
		"dial/again":    refusesAfter(2, true),
		"dial/together": refusesAfter(2, false),
		"dial/close": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err != nil {
				return nil, err
			}
			return neverCloses{s}, nil
		}),
		"dial/box-gone": onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
			s, err := b.Dial(ctx, box)
			if err != nil {
				return nil, err
			}
			return &waitsForClose{ReadWriteCloser: s, closed: make(chan struct{})}, nil
		}),
	}
}

func onDial(f func(execution.Backend, context.Context, string) (io.ReadWriteCloser, error)) func(execution.Backend) Mutant {
	return func(b execution.Backend) Mutant {
		return Mutant{Backend: b, dial: func(ctx context.Context, box string) (io.ReadWriteCloser, error) { return f(b, ctx, box) }}
	}
}

// refusesAfter refuses a box's next stream once enough are open, or were closed.
func refusesAfter(most int, closed bool) func(execution.Backend) Mutant {
	var mu sync.Mutex
	count := map[string]int{}
	add := func(box string, n int) {
		mu.Lock()
		defer mu.Unlock()
		count[box] += n
	}
	return onDial(func(b execution.Backend, ctx context.Context, box string) (io.ReadWriteCloser, error) {
		opened, ended := 1, -1
		if closed {
			opened, ended = 0, 1
		}
		mu.Lock()
		refused := count[box] >= most
		count[box] += opened
		mu.Unlock()
		if refused {
			return nil, core.Errorf(core.ErrExhausted, "too many")
		}
		s, err := b.Dial(ctx, box)
		if err != nil {
			return nil, err
		}
		return onClose{s, func() { add(box, ended) }}, nil
	})
}

type onClose struct {
	io.ReadWriteCloser
	f func()
}

func (s onClose) Close() error {
	s.f()
	return s.ReadWriteCloser.Close()
}

type neverCloses struct{ io.ReadWriteCloser }

func (neverCloses) Close() error { return nil }

// waitsForClose hides the far end's end from who never wrote: Stop needs to notice it.
type waitsForClose struct {
	io.ReadWriteCloser
	wrote  atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (s *waitsForClose) Write(p []byte) (int, error) {
	s.wrote.Store(true)
	return s.ReadWriteCloser.Write(p)
}

func (s *waitsForClose) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if n == 0 && err != nil && !s.wrote.Load() {
		<-s.closed
	}
	return n, err
}

func (s *waitsForClose) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.ReadWriteCloser.Close()
}
