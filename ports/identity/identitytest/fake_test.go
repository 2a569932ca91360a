package identitytest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// fake keeps everything in lists. broken names the one promise that it breaks; "" is none.
type fake struct {
	broken   string
	mu       sync.Mutex
	users    []core.User
	keys     []core.Key
	offered  [32]byte
	until    time.Time
	records  []core.AuditRecord
	spent    map[string]time.Duration
	began    map[string]time.Time
	holdings []core.Holding
}

func newFake(broken string) *fake {
	return &fake{broken: broken, spent: map[string]time.Duration{}, began: map[string]time.Time{}}
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

// user is where one is, or -1.
func (f *fake) user(is func(core.User) bool) int { return slices.IndexFunc(f.users, is) }

func (f *fake) userOf(id string) int { return f.user(func(u core.User) bool { return u.ID == id }) }

func (f *fake) checkUser(u core.User) error {
	taken := func(o core.User) bool { return o.ID == u.ID || core.SameUserName(o.Name, u.Name) }
	if at := f.user(taken); at >= 0 && !f.is("user twice") {
		return identity.ErrUserTaken(f.users[at].Name)
	}
	if f.is("faulty user") {
		return nil
	}
	return core.CheckUser(u)
}

func (f *fake) AddUser(_ context.Context, u core.User) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkUser(u); err != nil {
		return err
	}
	f.gap("users at once")
	if f.is("add user") {
		u.Disabled = false
	}
	f.users = append(f.users, u)
	return nil
}

func (f *fake) User(_ context.Context, idOrName string) (core.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.userOf(idOrName)
	if at < 0 && !f.is("find user") {
		at = f.user(func(u core.User) bool { return core.SameUserName(u.Name, idOrName) })
	}
	if at < 0 {
		return core.User{}, identity.ErrNoUser(idOrName)
	}
	return f.users[at], nil
}

func (f *fake) UpdateUser(_ context.Context, id string, change func(*core.User) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.userOf(id)
	if at < 0 {
		return identity.ErrNoUser(id)
	}
	now := f.users[at]
	next := now
	err := change(&next)
	if err != nil && !f.is("update user refused") {
		return err
	}
	if next.ID = id; !f.is("update user") {
		next.Created = now.Created
	}
	f.users = slices.Delete(f.users, at, at+1)
	if fault := f.checkUser(next); fault != nil {
		err, next = fault, now
	}
	f.users = append(f.users, next)
	return err
}

func (f *fake) Users(context.Context) ([]core.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.users)
	slices.SortFunc(list, func(a, b core.User) int {
		if f.is("list users") {
			return strings.Compare(a.Name, b.Name)
		}
		return strings.Compare(core.FoldUserName(a.Name), core.FoldUserName(b.Name))
	})
	return list, nil
}

func (f *fake) RemoveUser(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("remove user") && f.userOf(id) < 0 {
		return identity.ErrNoUser(id)
	}
	f.users = slices.DeleteFunc(f.users, func(u core.User) bool { return u.ID == id })
	f.keys = slices.DeleteFunc(f.keys, func(k core.Key) bool { return k.Owner == id })
	return nil
}

func (f *fake) out(k core.Key) core.Key {
	if !f.is("own key") {
		k.Scopes = slices.Clone(k.Scopes)
	}
	return k
}

func (f *fake) keyOf(id string) int {
	return slices.IndexFunc(f.keys, func(k core.Key) bool { return k.ID == id })
}

func (f *fake) checkKey(k core.Key) error {
	if f.keyOf(k.ID) >= 0 {
		return identity.ErrKeyTaken(k.ID)
	}
	if f.is("faulty key") {
		return nil
	}
	return core.CheckKey(k)
}

func (f *fake) AddKey(_ context.Context, k core.Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkKey(k); err != nil {
		return err
	}
	if f.userOf(k.Owner) < 0 {
		return identity.ErrNoUser(k.Owner)
	}
	if f.is("add key") && len(k.Scopes) == 0 {
		k.Scopes = nil // nothing became everything
	}
	f.keys = append(f.keys, f.out(k))
	return nil
}

func (f *fake) Key(_ context.Context, id string) (core.Key, core.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.keyOf(id)
	switch {
	case at < 0 && f.is("unknown key"):
		return core.Key{}, core.User{}, nil
	case at < 0:
		return core.Key{}, core.User{}, identity.ErrNoKey(id)
	}
	return f.out(f.keys[at]), f.users[f.userOf(f.keys[at].Owner)], nil
}

func (f *fake) UpdateKey(_ context.Context, id string, change func(*core.Key) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.keyOf(id)
	if at < 0 {
		return identity.ErrNoKey(id)
	}
	now := f.keys[at]
	next := f.out(now)
	if err := change(&next); err != nil {
		if f.is("update key refused") {
			f.keys[at] = next
		}
		return err
	}
	next.ID, next.Owner, next.Created = now.ID, now.Owner, now.Created
	if !f.is("update key") {
		next.Hash = now.Hash
	}
	if err := core.CheckKey(next); err != nil {
		return err
	}
	f.keys[at] = next
	return nil
}

func (f *fake) ReplaceKey(_ context.Context, old string, by core.Key, until time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.keyOf(old)
	if at < 0 {
		return identity.ErrNoKey(old)
	}
	now := f.keys[at]
	if now.ReplacedBy != "" || !now.Revoked.IsZero() || now.Owner != by.Owner {
		return identity.ErrNotReplaced(old)
	}
	f.gap("replaced once")
	rotated := now.RotatedTo(by.ID, until)
	if f.is("replace key") {
		rotated.Expires = until
	}
	if f.is("replace key refused") {
		f.keys[at] = rotated
	}
	if err := f.checkKey(by); err != nil {
		return err
	}
	f.keys[at] = rotated
	f.keys = append(f.keys, by)
	return nil
}

func (f *fake) Keys(_ context.Context, owner string) ([]core.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Key
	for _, k := range f.keys {
		if owner == "" || k.Owner == owner {
			list = append(list, f.out(k))
		}
	}
	slices.SortFunc(list, func(a, b core.Key) int {
		if f.is("list keys") {
			return strings.Compare(a.ID, b.ID)
		}
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

func (f *fake) Touch(_ context.Context, used map[string]time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.keys {
		if at, has := used[f.keys[i].ID]; has && (f.is("touch") || at.After(f.keys[i].Used)) {
			f.keys[i].Used = at
		}
	}
	return nil
}

func (f *fake) hasAdmin() bool {
	return f.user(func(u core.User) bool { return u.Role == core.RoleAdmin && (!f.is("offer late") || !u.Disabled) }) >= 0
}

func (f *fake) Offer(_ context.Context, hash [32]byte, until time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hasAdmin() {
		return identity.ErrHasAdmin()
	}
	if f.until.IsZero() || !f.is("offer again") {
		f.offered, f.until = hash, until
	}
	return nil
}

func (f *fake) Redeem(_ context.Context, hash [32]byte, now time.Time, admin core.User, key core.Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	late := !now.Before(f.until)
	if f.is("not redeemed") {
		late = now.After(f.until)
	}
	if f.hasAdmin() || hash != f.offered || late {
		return identity.ErrNotRedeemed()
	}
	if f.is("redeem faulty") {
		f.until = time.Time{}
	}
	if err := cmp.Or(f.checkUser(admin), f.checkKey(key)); err != nil {
		return err
	}
	if !f.is("redeem once") {
		f.until = time.Time{}
	}
	if f.users = append(f.users, admin); f.is("redeem") {
		key.Hash = hash
	}
	f.keys = append(f.keys, key)
	return nil
}

func (f *fake) Append(_ context.Context, r core.AuditRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("append") {
		r.Code = strings.ToValidUTF8(strings.TrimRight(r.Code, "\x00"), "")
	}
	list := f.records
	f.gap("append at once")
	f.records = append(slices.Clone(list), r)
	return nil
}

func (f *fake) Records(_ context.Context, principal string, before time.Time, limit int) ([]core.AuditRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if limit < 1 && !f.is("records pages") {
		return nil, identity.ErrPage(limit)
	}
	list := slices.Clone(f.records)
	if !f.is("records") {
		slices.Reverse(list)
	}
	slices.SortStableFunc(list, func(a, b core.AuditRecord) int { return b.At.Compare(a.At) })
	list = slices.DeleteFunc(list, func(r core.AuditRecord) bool {
		return principal != "" && r.Principal != principal || !before.IsZero() && !r.At.Before(before)
	})
	return list[:min(limit, len(list))], nil
}

func (f *fake) SweepRecords(_ context.Context, before time.Time) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had := len(f.records)
	f.records = slices.DeleteFunc(f.records, func(r core.AuditRecord) bool {
		return r.At.Before(before) || f.is("sweep records") && r.At.Equal(before)
	})
	return had - len(f.records), nil
}

func (f *fake) Spend(_ context.Context, owner string, window time.Time, more time.Duration) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := owner + window.String()
	if f.is("spend") {
		more = more.Truncate(time.Second)
	}
	now := f.spent[at]
	f.gap("spend at once")
	f.spent[at], f.began[at] = now+more, window
	return f.spent[at], nil
}

func (f *fake) SweepSpending(_ context.Context, before time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.spent, func(at string, _ time.Duration) bool {
		return f.began[at].Before(before) || f.is("sweep spending")
	})
	return nil
}

func (f *fake) holdingOf(run string) int {
	return slices.IndexFunc(f.holdings, func(h core.Holding) bool { return h.Run == run })
}

func (f *fake) Hold(_ context.Context, h core.Holding, most int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := int64(0)
	for _, o := range f.holdings {
		if o.Owner == h.Owner {
			used += o.Bytes
		}
	}
	at := f.holdingOf(h.Run)
	if at >= 0 && f.holdings[at].Owner != h.Owner && !f.is("hold another's") {
		return identity.ErrHeld(h.Run)
	}
	if most > 0 && used+h.Bytes > most && (h.Bytes > 0 || f.is("hold full")) {
		return identity.ErrFull(used, h.Bytes, most)
	}
	f.gap("hold at once")
	if at < 0 {
		f.holdings = append(f.holdings, h)
		return nil
	}
	f.holdings[at].Bytes += h.Bytes
	if !f.is("hold") {
		f.holdings[at].Bytes = max(0, f.holdings[at].Bytes)
	}
	return nil
}

func (f *fake) Holding(_ context.Context, run string) (core.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.holdingOf(run); at >= 0 {
		return f.holdings[at], nil
	}
	return core.Holding{}, identity.ErrNoHolding(run)
}

func (f *fake) Holdings(_ context.Context, owner string) ([]core.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(f.holdings), func(h core.Holding) bool { return owner != "" && h.Owner != owner })
	slices.SortFunc(list, func(a, b core.Holding) int {
		if f.is("holdings") {
			return strings.Compare(a.Run, b.Run)
		}
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Run, b.Run))
	})
	return list, nil
}

func (f *fake) Release(_ context.Context, run string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("release") && f.holdingOf(run) < 0 {
		return identity.ErrNoHolding(run)
	}
	f.holdings = slices.DeleteFunc(f.holdings, func(h core.Holding) bool { return h.Run == run })
	return nil
}

// harness opens one fake for each folder.
func harness(broken string) Harness {
	folders := map[string]*fake{}
	return Harness{Lasts: true, Open: func(_ *testing.T, dir string) identity.Store {
		if folders[dir] == nil || broken == "users shared" {
			folders[dir] = newFake(broken)
		}
		return folders[dir]
	}}
}

func TestFakeKeepsEveryPromise(t *testing.T) { Run(t, harness("")) }

// TestTeeth breaks one promise at a time: its check must notice, and no other.
func TestTeeth(t *testing.T) {
	also := map[string][]string{ // checks that rest on the promise of another
		"faulty user": {"update user refused"},
		"user twice":  {"update user refused", "users at once", "redeem faulty"},
		"faulty key":  {"replace key refused"},
		"unknown key": {"remove user"},
	}
	for _, broken := range Checks() {
		t.Run(broken.Name, func(t *testing.T) {
			for _, check := range Checks() {
				faults := check.Faults(t, harness(broken.Name))
				switch {
				case check.Name == broken.Name && len(faults) == 0:
					t.Errorf("the check noticed nothing")
				case check.Name != broken.Name && len(faults) > 0 && !slices.Contains(also[broken.Name], check.Name):
					t.Errorf("the check %q failed too: %s", check.Name, faults[0])
				}
			}
		})
	}
}
