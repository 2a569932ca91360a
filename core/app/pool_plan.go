package app

import (
	"maps"
	"slices"
	"time"

	"github.com/boxwright/boxwright/core"
)

const (
	// demandWindow is how far back demand is looked at.
	demandWindow = 2 * time.Minute
	// mostAsked bounds the remembered demand of a shelf.
	mostAsked = 256
	// leastSpan is the shortest time in which runs count as coming together.
	leastSpan = 200 * time.Millisecond
	// firstRetry and lastRetry bound how long the pool waits after a failure.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// shelf holds the boxes of one kind: same backend, image, limits, network, mounts and preloads.
type shelf struct {
	key  string
	on   *place
	spec core.BoxSpec

	waiting  []*waiting // the oldest first
	making   int
	asked    []time.Time   // when somebody wanted one, lately
	took     time.Duration // how long it takes to make one
	failures int           // in a row
	retry    time.Time     // none is made before
}

// waiting is a box that waits.
type waiting struct {
	*box
	since time.Time
}

func (s *shelf) ask(now time.Time) {
	if len(s.asked) == mostAsked {
		s.asked = slices.Delete(s.asked, 0, 1)
	}
	s.asked = append(s.asked, now)
}

// claim takes a box that lives long enough, and discards those that are of no use any more.
func (s *shelf) claim(now time.Time, need, maxAge time.Duration) *box {
	s.weed(now, maxAge)
	for i, w := range s.waiting {
		if w.Labels.Expires.IsZero() || w.Labels.Expires.Sub(now) >= need {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return w.box
		}
	}
	return nil
}

// weed discards boxes that are too old, and those that are out of reach.
func (s *shelf) weed(now time.Time, maxAge time.Duration) {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiting) bool {
		if now.Sub(w.since) < maxAge && stands(w.guest) {
			return false
		}
		w.discard()
		return true
	})
}

func (s *shelf) put(w *waiting, took time.Duration) {
	s.waiting = append(s.waiting, w)
	s.took = (s.took + took) / 2
	s.failures, s.retry = 0, time.Time{}
}

func (s *shelf) fail(now time.Time) {
	s.retry = now.Add(min(firstRetry<<min(s.failures, 10), lastRetry))
	s.failures++
}

// latest is when somebody last wanted a box.
func (s *shelf) latest() time.Time {
	if len(s.asked) == 0 {
		return time.Time{}
	}
	return s.asked[len(s.asked)-1]
}

// peak is how many were wanted lately in the time that it takes to make one.
func (s *shelf) peak(now time.Time) int {
	span := max(s.took, leastSpan)
	most, from := 0, 0
	for i, at := range s.asked {
		for at.Sub(s.asked[from]) > span {
			from++
		}
		if now.Sub(at) <= demandWindow {
			most = max(most, i-from+1)
		}
	}
	return most
}

// memory is what one box of the shelf is taken to use, in bytes.
func (s *shelf) memory() int64 {
	if len(s.spec.Preload) > 0 {
		return waitingMemory + modulesMemory
	}
	return waitingMemory
}

func (p *pool) isBase(s *shelf) bool {
	return p.base == imageName{s.on.name, s.spec.Image} && slices.Equal(s.spec.Mounts, p.baseSpec.Mounts)
}

// target is how many boxes of a shelf should wait.
func (p *pool) target(s *shelf, now time.Time) int {
	floor := 0
	if p.isBase(s) {
		floor = p.settings.Size
	}
	if now.Sub(s.latest()) <= p.settings.IdleTimeout {
		floor = max(floor, 1)
	}
	return min(max(floor, s.peak(now)), p.settings.Max)
}

// neediest is the shelf that the next box should be made for; nil if there is none, or no room. A creation
// that somebody waits for comes first.
func (p *pool) neediest(now time.Time) *shelf {
	if p.closed || p.foreground > 0 || p.making >= makingAtOnce || p.room() <= int64(p.making) {
		return nil
	}
	count, memory := p.held()
	if count >= p.settings.Max {
		return nil
	}
	var neediest *shelf
	worst := 0
	for _, key := range slices.Sorted(maps.Keys(p.shelves)) {
		s := p.shelves[key]
		tooMuch := p.settings.MaxMemory > 0 && memory+s.memory() > p.settings.MaxMemory
		if lacks := p.target(s, now) - len(s.waiting) - s.making; lacks > worst && !tooMuch && !now.Before(s.retry) {
			neediest, worst = s, lacks
		}
	}
	return neediest
}

// held is how many boxes wait or are being made to, and what they are taken to use.
func (p *pool) held() (count int, memory int64) {
	for _, s := range p.shelves {
		n := len(s.waiting) + s.making
		count += n
		memory += int64(n) * s.memory()
	}
	return count, memory
}

// room is how many more boxes may wait beside those in use; negative when there are too many. It goes by the
// bounds of all boxes, to which those that wait count with all the memory that they may use.
func (p *pool) room() int64 {
	used, room := p.admission.inUse(), int64(p.settings.Max)
	idle := amounts{}
	for _, s := range p.shelves {
		n := int64(len(s.waiting))
		idle.add(amounts{boxes: n, memory: n * s.spec.Limits.MemoryBytes}, 1)
	}
	if bound := p.admission.all.boxes; bound > 0 {
		room = min(room, bound-used.boxes-idle.boxes)
	}
	if bound := p.admission.all.memory; bound > 0 {
		left := bound - used.memory - idle.memory
		if left < 0 {
			return -1
		}
		room = min(room, left/p.boxMemory)
	}
	return room
}

// evict discards the box that will be missed least; false if none waits.
func (p *pool) evict() bool {
	var from *shelf
	for _, key := range slices.Sorted(maps.Keys(p.shelves)) {
		s := p.shelves[key]
		if len(s.waiting) > 0 && (from == nil || s.latest().Before(from.latest())) {
			from = s
		}
	}
	if from == nil {
		return false
	}
	from.waiting[0].discard()
	from.waiting = slices.Delete(from.waiting, 0, 1)
	return true
}
