package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The server's bounds of a connection. There is none of an answer: streams go on for as long as there is a client.
// What writes one bounds each write.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 32 << 10 // bytes
	cutTime    = 2 * time.Second
)

// Serve serves until ctx ends, and then until the calls under way have, or the bound of that is over. It closes
// the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug), // scanners and clients that go
		BaseContext: func(net.Listener) context.Context { return calls },
	}
	var err error
	if server.TLSConfig, err = s.options.Listen.newTLS(s.options.Log); err != nil {
		return errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return s.drain(server, cut)
}

// drain lets what is under way end, and ends it when that takes too long.
func (s *Server) drain(server *http.Server, cut func()) error {
	s.isDraining.Store(true)
	call(s.options.Drain)
	patient, cancel := context.WithTimeout(context.Background(), s.options.DrainTimeout)
	defer cancel()
	if server.Shutdown(patient) == nil {
		return nil
	}
	s.options.Log.Warn("calls were still under way when the server had to end")
	cut()
	call(s.options.Cut)
	brief, cancel := context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	if server.Shutdown(brief) == nil {
		return nil
	}
	return server.Close()
}

func call(f func()) {
	if f != nil {
		f()
	}
}
