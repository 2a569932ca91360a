package mcphttp

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/boxwright/boxwright/core"
)

// session is one that a client has opened, or a stream that is like one.
type session struct {
	id    string // random: who does not have it cannot guess it; who has it still must be its owner
	owner string // the principal's id
	ctx   context.Context
	end   context.CancelFunc

	// The rest is under the lock of sessions.
	busy int // requests and streams that are open
	used time.Time
}

// sessions are those that are open. Each is its owner's: to everybody else it is as if it were not there.
type sessions struct {
	most  int // of one owner
	idle  time.Duration
	ended func(*session) // called without the lock

	mu      sync.Mutex
	open    map[string]*session
	refused bool
	telling sync.WaitGroup
}

func newSessions(o Options, ended func(*session)) *sessions {
	return &sessions{most: o.SessionsPerPrincipal, idle: o.IdleTimeout, ended: ended, open: map[string]*session{}}
}

// begin opens a session, which is in use until leave is called. Where its owner has as many as allowed, the one
// that was not used for longest makes room; clients often go without a word.
func (s *sessions) begin(owner string) (begun *session, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused {
		return nil, nil, core.Errorf(core.ErrUnavailable, "the server is about to end and opens no more sessions").WithRetryAfter(5 * time.Second)
	}
	if count, oldest := s.ownedBy(owner); count >= s.most {
		if oldest == nil {
			return nil, nil, core.Errorf(core.ErrExhausted, "%d sessions of yours are in use; no more are allowed", count).
				WithHint("end one with DELETE, or wait for a call to end")
		}
		s.remove(oldest)
	}
	begun = &session{id: strings.ToLower(rand.Text()), owner: owner}
	begun.ctx, begun.end = context.WithCancel(context.Background())
	s.open[begun.id] = begun
	return begun, s.use(begun), nil
}

// ownedBy counts an owner's sessions, and finds the one that is not in use and was not for longest; nil is none.
func (s *sessions) ownedBy(owner string) (count int, oldest *session) {
	for _, one := range s.open {
		if one.owner != owner {
			continue
		}
		count++
		if one.busy == 0 && (oldest == nil || one.used.Before(oldest.used)) {
			oldest = one
		}
	}
	return count, oldest
}

// enter uses an owner's session until leave is called.
func (s *sessions) enter(owner, id string) (entered *session, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entered = s.open[id]
	if entered == nil || entered.owner != owner {
		return nil, nil, core.Errorf(core.ErrNotFound, "there is no such session; it may have ended").WithHint("initialize a new one")
	}
	return entered, s.use(entered), nil
}

// use counts one that is in use; the lock is held.
func (s *sessions) use(one *session) (leave func()) {
	one.busy++
	one.used = time.Now()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.busy--
		one.used = time.Now()
	})
}

// close ends a session.
func (s *sessions) close(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(one)
}

// remove ends a session with its calls, and tells of it once; the lock is held.
func (s *sessions) remove(one *session) {
	if s.open[one.id] != one {
		return
	}
	delete(s.open, one.id)
	one.end()
	s.telling.Go(func() { s.ended(one) })
}

func (s *sessions) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id] != nil
}

// refuse opens no more.
func (s *sessions) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}

// closeAll ends all, and waits until that was told.
func (s *sessions) closeAll() {
	s.mu.Lock()
	for _, one := range s.open {
		s.remove(one)
	}
	s.mu.Unlock()
	s.telling.Wait()
}

// owners are those of open sessions, each once.
func (s *sessions) owners() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	for _, one := range s.open {
		names[one.owner] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// expel ends all sessions of an owner.
func (s *sessions) expel(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		if one.owner == owner {
			s.remove(one)
		}
	}
}

// sweep ends sessions that nobody uses, until ctx does.
func (s *sessions) sweep(ctx context.Context) {
	tick := time.NewTicker(max(s.idle/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.removeIdle(now)
		case <-ctx.Done():
			return
		}
	}
}

func (s *sessions) removeIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		if one.busy == 0 && now.Sub(one.used) >= s.idle {
			s.remove(one)
		}
	}
}

// sessionKey is where a request has the session that it opens.
type sessionKey struct{}

// resolver gives the library the ids of sessions that were opened here.
type resolver struct{ *sessions }

// ResolveSessionIdManager implements server.SessionIdManagerResolver; r may be nil.
func (s resolver) ResolveSessionIdManager(r *http.Request) server.SessionIdManager { //nolint:staticcheck // the library's spelling
	m := manager{sessions: s.sessions}
	if r != nil {
		m.opened, _ = r.Context().Value(sessionKey{}).(*session)
	}
	return m
}

type manager struct {
	*sessions
	opened *session // nil unless the request opens one
}

// Generate implements server.SessionIdManager.
func (m manager) Generate() string {
	if m.opened == nil {
		return ""
	}
	return m.opened.id
}

// Validate implements server.SessionIdManager. Whose it is was checked before.
func (m manager) Validate(id string) (isTerminated bool, err error) { return !m.has(id), nil }

// Terminate implements server.SessionIdManager: by the time it is called the session is over.
func (m manager) Terminate(string) (isNotAllowed bool, err error) { return false, nil }
