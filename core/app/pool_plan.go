package app

import (
	"context"
	"encoding/json"
	"maps"
	"math"
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

// kind is what boxes that wait have in common: same backend, image, limits, network, mounts and preloads.
type kind struct {
	on    *place
	spec  core.BoxSpec
	zone  string // where what is installed will go; "" for runs
	boxes int64  // that are made together
	make  func(context.Context) (*box, error)
}

// key is equal for equal kinds. Those for runs come first.
func (k kind) key() string {
	key, _ := json.Marshal([]any{k.zone, k.on.name, k.spec}) // plain data
	return string(key)
}

func (k kind) installs() bool { return k.zone != "" }

// users are what boxes of the kind wait for, in messages.
func (k kind) users() string {
	if k.installs() {
		return "installations"
	}
	return "runs"
}

// needs is what boxes of the kind may use.
func (k kind) needs() amounts {
	return amounts{boxes: k.boxes, memory: k.boxes * k.spec.Limits.MemoryBytes}
}

// shelf holds the boxes of one kind.
type shelf struct {
	kind
	name     string // the kind's key
	standing bool   // somebody may ask for the first one at any time

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

// memory is what those of the shelf that are made together are taken to use, in bytes.
func (s *shelf) memory() int64 {
	if len(s.spec.Preload) > 0 {
		return waitingMemory + modulesMemory
	}
	return s.boxes * waitingMemory
}

func (p *pool) isBase(s *shelf) bool {
	if s.installs() {
		return s.standing
	}
	return p.base == imageName{s.on.name, s.spec.Image} && slices.Equal(s.spec.Mounts, p.baseSpec.Mounts)
}

// target is how many boxes of a shelf should wait.
func (p *pool) target(s *shelf, now time.Time) int {
	floor, asked := 0, now.Sub(s.latest()) <= p.settings.IdleTimeout
	if s.installs() {
		if asked || p.isBase(s) {
			floor = p.settings.Installers
		}
		return min(floor, p.settings.Max)
	}
	if p.isBase(s) {
		floor = p.settings.Size
	}
	if asked {
		floor = max(floor, 1)
	}
	return min(max(floor, s.peak(now)), p.settings.Max)
}

// neediest is the shelf that the next box should be made for; nil if there is none, or no room. A creation
// that somebody waits for comes first.
func (p *pool) neediest(now time.Time) *shelf {
	if p.closed || p.foreground > 0 || p.making >= makingAtOnce {
		return nil
	}
	var neediest *shelf
	worst := 0
	for _, key := range slices.Sorted(maps.Keys(p.shelves)) {
		s := p.shelves[key]
		if s.installs() && (neediest != nil || !p.mayPrepare(now)) {
			continue // runs come first
		}
		if lacks := p.target(s, now) - len(s.waiting) - s.making; lacks > worst && p.fits(s) && !now.Before(s.retry) {
			neediest, worst = s, lacks
		}
	}
	return neediest
}

// mayPrepare reports whether boxes for the next installation would slow down neither one that is under way nor the
// run that it was for. A server that is always busy gets them after a while.
func (p *pool) mayPrepare(now time.Time) bool {
	calm := p.admission.inUse().runs == 0 || now.Sub(p.installed) > compilePatience
	return p.installing == 0 && calm
}

// fits reports whether one more of a shelf may be made.
func (p *pool) fits(s *shelf) bool {
	room := p.room()
	count, memory := int64(0), int64(0)
	for _, other := range p.shelves {
		room.add(other.needs(), -int64(other.making))
		n := int64(len(other.waiting) + other.making)
		count += n * other.boxes
		memory += n * other.memory()
	}
	tooMuch := p.settings.MaxMemory > 0 && memory+s.memory() > p.settings.MaxMemory
	return !tooMuch && count+s.boxes <= int64(p.settings.Max) && room.covers(s.needs())
}

// room is what may still wait beside what is in use; negative when there is too much. It goes by the bounds of all
// boxes, to which those that wait count with all the memory that they may use.
func (p *pool) room() amounts {
	room := amounts{boxes: math.MaxInt32, memory: math.MaxInt64 / 2} // no bound
	used, all := p.admission.inUse(), p.admission.all
	if all.boxes > 0 {
		room.boxes = all.boxes - used.boxes
	}
	if all.memory > 0 {
		room.memory = all.memory - used.memory
	}
	for _, s := range p.shelves {
		room.add(s.needs(), -int64(len(s.waiting)))
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
