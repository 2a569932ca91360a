package mcphttp

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// writeTime is how long a client may take to read what is written at once, until it counts as gone.
const writeTime = 2 * time.Minute

// stream is an answer that may become a stream of events. Then it shows now and then that it lives, by comments, so
// that no proxy takes it for dead; and it asks proxies not to hold events back.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
	every   time.Duration

	mu      sync.Mutex
	last    time.Time // when something was written
	stop    chan struct{}
	beating sync.WaitGroup
}

func newStream(w http.ResponseWriter, every time.Duration) *stream {
	return &stream{ResponseWriter: w, control: http.NewResponseController(w), every: every}
}

// WriteHeader implements http.ResponseWriter.
func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil && strings.HasPrefix(s.Header().Get("Content-Type"), "text/event-stream") {
		s.Header().Set("X-Accel-Buffering", "no")
		s.Header().Set("Cache-Control", "no-store")
		s.stop, s.last = make(chan struct{}), time.Now()
		s.beating.Go(s.beat)
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. The library writes whole events.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(p)
}

func (s *stream) write(p []byte) (int, error) {
	s.last = time.Now()
	_ = s.control.SetWriteDeadline(s.last.Add(writeTime))
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (s *stream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.control.Flush()
}

// Unwrap lets http.ResponseController through.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stream) beat() {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.comment()
		case <-s.stop:
			return
		}
	}
}

func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < s.every/2 {
		return
	}
	if _, err := s.write([]byte(": still here\n\n")); err == nil {
		_ = s.control.Flush()
	}
}

// send writes one event.
func (s *stream) send(event string, data []byte) error {
	_, err := io.WriteString(s, "event: "+event+"\ndata: "+string(data)+"\n\n")
	s.Flush()
	return err
}

// end is called before the handler returns: nothing may be written after that.
func (s *stream) end() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		close(stop)
		s.beating.Wait()
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may serve on
}
