package daemon

import (
	"crypto/rand"
	"regexp"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
)

// Set remembers ids, not for ever. Its zero value is empty.
type Set struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

const maxIDs = 10_000

// Add remembers id.
func (s *Set) Add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) >= maxIDs {
		s.ids = map[string]struct{}{}
	}
	s.ids[id] = struct{}{}
}

// Has reports whether id is remembered.
func (s *Set) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

// Remove forgets id.
func (s *Set) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}

// IsID reports whether text is a whole id of a container. Engines also take names and parts of
// ids, and an id becomes a part of a URL.
func IsID(text string) bool {
	if len(text) != 64 {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// NewName is a container's name that nobody else uses: boxwright-PURPOSE-….
func NewName(purpose core.Purpose) string {
	part := string(purpose)
	if !regexp.MustCompile(`^[a-z]{1,20}$`).MatchString(part) {
		part = "box"
	}
	return "boxwright-" + part + "-" + strings.ToLower(rand.Text()[:16])
}
