package capture

import "sync"

// Live holds output until somebody takes it, for progress. It is lossy: what does not fit until then is
// left out, so that a program that floods its output costs nothing more.
type Live struct {
	mu   sync.Mutex
	size int
	data []byte
}

// NewLive returns one that holds at most size bytes.
func NewLive(size int) *Live { return &Live{size: size} }

// Take returns what has come since the last time.
func (l *Live) Take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	data := l.data
	l.data = nil
	return data
}

func (l *Live) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := l.size - len(l.data); room > 0 {
		l.data = append(l.data, p[:min(room, len(p))]...)
	}
}
