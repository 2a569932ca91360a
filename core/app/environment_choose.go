package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// EnvironmentLimits bound the environments that are kept. A zero field is no bound.
type EnvironmentLimits struct {
	MaxSize int64         // of all on one backend together
	MaxAge  time.Duration // since the last use
}

// expendable are the environments that are to go, the least recently used first: those that nobody has used for
// too long, and as many more as make the rest of their backend small enough. One in use is never among them.
func (l EnvironmentLimits) expendable(all []core.Environment, now time.Time, inUse func(core.Environment) bool) []core.Environment {
	oldestFirst := slices.SortedFunc(slices.Values(all), func(a, b core.Environment) int {
		return cmp.Or(a.Used.Compare(b.Used), strings.Compare(a.Key, b.Key))
	})
	room := map[string]int64{}
	for _, e := range oldestFirst {
		room[e.Backend] += e.Size
	}
	var going []core.Environment
	for _, e := range oldestFirst {
		old := l.MaxAge > 0 && now.Sub(e.Used) > l.MaxAge
		large := l.MaxSize > 0 && room[e.Backend] > l.MaxSize
		if (old || large) && !inUse(e) {
			going = append(going, e)
			room[e.Backend] -= e.Size
		}
	}
	return going
}
