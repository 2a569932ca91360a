package web

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxLimits bounds for how many senders there are limits at a time.
const maxLimits = 10_000

// limits bound how often each sender may do something.
type limits struct {
	rate  rate.Limit
	burst int

	mu sync.Mutex
	of map[string]*rate.Limiter
}

// newLimits allows so many times a minute, burst of them at once; perMinute 0 is no bound.
func newLimits(perMinute, burst int64) *limits {
	return &limits{rate: rate.Limit(float64(perMinute) / 60), burst: int(burst), of: map[string]*rate.Limiter{}}
}

func (l *limits) limiter(sender string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.of[sender]
	if limiter == nil {
		l.makeRoom()
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.of[sender] = limiter
	}
	return limiter
}

// makeRoom forgets those who have their whole burst again, and if that are few, anybody: half of them at once, so
// that whoever has many addresses cannot have it look through all for each.
func (l *limits) makeRoom() {
	if len(l.of) < maxLimits {
		return
	}
	for sender, limiter := range l.of {
		if limiter.Tokens() >= float64(l.burst) {
			delete(l.of, sender)
		}
	}
	for sender := range l.of {
		if len(l.of) <= maxLimits/2 {
			return
		}
		delete(l.of, sender)
	}
}

// take counts one time more, or refuses it.
func (l *limits) take(sender string) error {
	if l.rate == 0 || l.limiter(sender).Allow() {
		return nil
	}
	return l.refusal()
}

func (l *limits) refusal() *refusal {
	refused := refusef(http.StatusTooManyRequests, "too many requests: at most %.0f a minute are answered", float64(l.rate)*60)
	refused.retry = time.Duration(float64(time.Second) / float64(l.rate))
	return refused
}
