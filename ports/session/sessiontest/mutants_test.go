package sessiontest

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// fake keeps sessions and runs in maps. broken names the one promise that it breaks; "" is none.
type fake struct {
	broken   string
	mu       sync.Mutex
	sessions map[string]core.Session
	runs     map[string]core.Run
}

func newFake(broken string) *fake {
	return &fake{broken: broken, sessions: map[string]core.Session{}, runs: map[string]core.Run{}}
}

func (f *fake) is(broken string) bool { return f.broken == broken }

// gap lets others in, in the middle of what should be one step.
func (f *fake) gap(broken string) {
	if f.is(broken) {
		f.mu.Unlock()
		time.Sleep(time.Millisecond)
		f.mu.Lock()
	}
}

// copied shares nothing with v.
func copied[T any](v T) T {
	clone := reflect.New(reflect.TypeFor[T]()).Elem()
	copyInto(clone, reflect.ValueOf(v))
	return clone.Interface().(T)
}

func copyInto(to, from reflect.Value) {
	to.Set(from)
	switch {
	case from.Kind() == reflect.Slice && from.Len() > 0:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		if reflect.Copy(to, from); from.Type().Elem().Kind() == reflect.Uint8 {
			return // a megabyte takes long, one by one
		}
		for i := range from.Len() {
			copyInto(to.Index(i), from.Index(i))
		}
	case from.Kind() == reflect.Map && from.Len() > 0:
		to.Set(reflect.MakeMap(from.Type()))
		for key, value := range from.Seq2() {
			to.SetMapIndex(key, value)
		}
	case from.Kind() == reflect.Pointer && !from.IsNil():
		to.Set(reflect.New(from.Type().Elem()))
		copyInto(to.Elem(), from.Elem())
	case from.Kind() == reflect.Struct && from.Type() != reflect.TypeFor[time.Time]():
		for i := range from.NumField() {
			copyInto(to.Field(i), from.Field(i))
		}
	}
}

func invalid() error { return core.Errorf(core.ErrInvalid, "no") }
func unknown() error { return core.Errorf(core.ErrNotFound, "unknown") }

func shortened(s string) string { return s[:min(len(s), 1000)] }

// fakeStore is the fake's session.Store.
type fakeStore struct{ *fake }

func (f fakeStore) out(s core.Session) core.Session {
	if f.is("store/own copy") {
		return s
	}
	return copied(s)
}

func (f fakeStore) Add(_ context.Context, s core.Session) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, exists := f.sessions[s.ID]
	if s.ID == "" || exists && !f.is("store/twice") || s.Owner == "" && !f.is("store/nobody") {
		return invalid()
	}
	if !f.is("store/names") && f.collides(s) {
		return invalid()
	}
	f.gap("store/add at once")
	if f.is("store/add") {
		s.Image = core.Image{}
	}
	if f.is("store/strange texts") {
		s.Box = shortened(s.Box)
	}
	f.sessions[s.ID] = f.out(s)
	return nil
}

func (f fakeStore) collides(s core.Session) bool {
	for _, o := range f.sessions {
		if s.Lost == "" && o.ID != s.ID && o.Lost == "" && o.Owner == s.Owner && (o.Name != "" && o.Name == s.Name || o.Client != "" && o.Client == s.Client) {
			return true
		}
	}
	return false
}

func (f fakeStore) sorted(want func(core.Session) bool) []core.Session {
	list := slices.SortedFunc(maps.Values(f.sessions), func(a, b core.Session) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return slices.DeleteFunc(list, func(s core.Session) bool { return !want(s) })
}

func (f fakeStore) Get(_ context.Context, owner, idOrName string) (core.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, exists := f.sessions[idOrName]; exists && (s.Owner == owner || f.is("store/get unknown")) {
		return f.out(s), nil
	}
	named := f.sorted(func(s core.Session) bool { return s.Owner == owner && s.Name == idOrName && idOrName != "" })
	if i := slices.IndexFunc(named, func(s core.Session) bool { return s.Lost == "" }); i >= 0 {
		return f.out(named[i]), nil
	}
	if len(named) == 0 {
		return core.Session{}, unknown()
	}
	if f.is("store/get") {
		slices.Reverse(named)
	}
	return f.out(named[len(named)-1]), nil
}

func (f fakeStore) OfClient(_ context.Context, owner, client string) (core.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.sorted(func(s core.Session) bool {
		return s.Owner == owner && s.Client == client && client != "" && (s.Lost == "" || f.is("store/of client"))
	})
	if len(list) == 0 {
		return core.Session{}, unknown()
	}
	return f.out(list[0]), nil
}

func (f fakeStore) Update(_ context.Context, id string, change func(*core.Session) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, exists := f.sessions[id]
	if !exists {
		if f.is("store/update unknown") {
			return nil
		}
		return unknown()
	}
	next := f.out(now)
	f.gap("store/update at once")
	if f.is("store/update") {
		next.Box = ""
	}
	if err := change(&next); err != nil {
		if f.is("store/update refused") {
			f.sessions[id] = next
		}
		return err
	}
	if !f.is("store/update identity") {
		next.ID, next.Owner, next.Created = now.ID, now.Owner, now.Created
	}
	if !f.is("store/update name") && f.collides(next) {
		return invalid()
	}
	delete(f.sessions, id)
	f.sessions[next.ID] = f.out(next)
	return nil
}

func (f fakeStore) List(_ context.Context, owner string) ([]core.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.sorted(func(s core.Session) bool { return owner == "" || s.Owner == owner })
	if f.is("store/list") {
		slices.Reverse(list)
	}
	for i := range list {
		list[i] = f.out(list[i])
	}
	return list, nil
}

func (f fakeStore) Remove(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, exists := f.sessions[id]; !exists && f.is("store/remove") {
		return unknown()
	}
	delete(f.sessions, id)
	return nil
}

// fakeRuns is the fake's session.Runs.
type fakeRuns struct{ *fake }

func (f fakeRuns) out(r core.Run) core.Run {
	if f.is("runs/own copy") {
		return r
	}
	return copied(r)
}

func (f fakeRuns) Put(_ context.Context, r core.Run) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if session.Stage(r.State) < 0 || core.CheckRunID(r.ID) != nil && !f.is("runs/put ids") || r.Owner == "" && !f.is("runs/nobody") {
		return invalid()
	}
	now, exists := f.runs[r.ID]
	back := now.State == core.RunEnded || session.Stage(now.State) > session.Stage(r.State)
	if exists && (back && !f.is("runs/put back") || now.Owner != r.Owner && !f.is("runs/put another's")) {
		return invalid()
	}
	f.gap("runs/settled once")
	if exists && f.is("runs/put") {
		r.Box = now.Box
	}
	if f.is("runs/strange texts") {
		r.Summary = shortened(r.Summary)
	}
	f.runs[r.ID] = f.out(r)
	return nil
}

func (f fakeRuns) TakeOver(_ context.Context, id, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, exists := f.runs[id]
	if !exists || r.State != core.RunUnderWay || r.Server != from && !f.is("runs/take over") {
		return unknown()
	}
	f.gap("runs/taken once")
	r.Server = to
	f.runs[id] = r
	return nil
}

func (f fakeRuns) Get(_ context.Context, owner, id string) (core.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, exists := f.runs[id]
	if !exists || r.Owner != owner && (owner != "" || f.is("runs/get")) {
		return core.Run{}, unknown()
	}
	return f.out(r), nil
}

func (f fakeRuns) sorted(want func(core.Run) bool) []core.Run {
	list := slices.SortedFunc(maps.Values(f.runs), func(a, b core.Run) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.ID, a.ID))
	})
	list = slices.DeleteFunc(list, func(r core.Run) bool { return !want(r) })
	for i := range list {
		list[i] = f.out(list[i])
	}
	return list
}

func (f fakeRuns) List(_ context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if limit < 1 {
		return nil, invalid()
	}
	list := f.sorted(func(r core.Run) bool {
		return (owner == "" || r.Owner == owner) && (before.IsZero() || r.Started.Before(before))
	})
	for !f.is("runs/list pages") && limit < len(list) && list[limit].Started.Equal(list[limit-1].Started) {
		limit++
	}
	list = list[:min(limit, len(list))]
	if f.is("runs/list") {
		slices.Reverse(list)
	}
	for i := range list {
		if !f.is("runs/list brief") {
			list[i] = session.Brief(list[i])
		}
	}
	return list, nil
}

func (f fakeRuns) UnderWay(context.Context) ([]core.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sorted(func(r core.Run) bool {
		return r.State == core.RunUnderWay || r.State == core.RunLost && f.is("runs/under way")
	}), nil
}

func (f fakeRuns) Sweep(_ context.Context, before time.Time) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had := len(f.runs)
	maps.DeleteFunc(f.runs, func(_ string, r core.Run) bool {
		end := session.EndOf(r)
		return r.State != core.RunUnderWay && (end.Before(before) || f.is("runs/sweep") && end.Equal(before))
	})
	return had - len(f.runs), nil
}

func (f fakeRuns) Trim(_ context.Context, room int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	over := f.sorted(func(r core.Run) bool { return r.State == core.RunEnded && session.Bytes(r) > 0 })
	slices.SortFunc(over, func(a, b core.Run) int { return b.Ended.Compare(a.Ended) })
	if f.is("runs/trim") {
		slices.Reverse(over)
	}
	n, kept := 0, int64(0)
	for _, r := range over {
		if kept += session.Bytes(r); kept > room {
			f.runs[r.ID] = session.Trimmed(r)
			n++
		}
	}
	return n, nil
}

// harness opens one fake for each folder.
func harness(broken string) Harness {
	folders := map[string]*fake{}
	users := map[*fake]int{}
	return Harness{Lasts: true, Open: func(_ *testing.T, dir string) Opened {
		f := folders[dir]
		_, promise, _ := strings.Cut(broken, "/")
		if f == nil || promise == "reopened" && users[f] == 0 || promise == "shared" && users[f] > 0 {
			f = newFake(broken)
			folders[dir] = f
		}
		users[f]++
		return Opened{Sessions: fakeStore{f}, Runs: fakeRuns{f}, Close: func() error { users[f]--; return nil }}
	}}
}

func TestFakeKeepsEveryPromise(t *testing.T) {
	RunStore(t, harness(""))
	RunRuns(t, harness(""))
}

// TestTeeth breaks one promise at a time: its check must notice, and no other.
func TestTeeth(t *testing.T) {
	also := map[string][]string{ // checks that rest on the promise of another
		"store/add":            {"own copy", "update", "update refused", "list", "reopened"},
		"store/names":          {"add at once", "strange texts", "shared"},
		"store/get unknown":    {"nobody"},
		"store/update":         {"own copy", "update at once", "shared"},
		"store/update at once": {"shared"},
		"store/list":           {"names"},
		"store/remove":         {"strange texts"},
		"store/own copy":       {"update refused"},
		"runs/put back":        {"settled once", "trim", "reopened", "shared"},
		"runs/list":            {"list pages"},
		"runs/take over":       {"taken once", "shared"},
	}
	for kind, checks := range map[string][]Check{"store/": StoreChecks(), "runs/": RunsChecks()} {
		for _, broken := range checks {
			if broken.Name == "concurrent" {
				continue // the race detector is its teeth
			}
			t.Run(kind+broken.Name, func(t *testing.T) {
				for _, check := range checks {
					faults := check.Faults(t, harness(kind+broken.Name))
					switch {
					case check.Name == broken.Name && len(faults) == 0:
						t.Errorf("the check noticed nothing")
					case check.Name != broken.Name && len(faults) > 0 && !slices.Contains(also[kind+broken.Name], check.Name):
						t.Errorf("the check %q failed too: %s", check.Name, faults[0])
					}
				}
			})
		}
	}
}
