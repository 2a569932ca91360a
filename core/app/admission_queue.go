package app

import (
	"slices"

	"github.com/boxwright/boxwright/core"
)

// waiter is a claim in the queue.
type waiter struct {
	claim
	party   *party
	granted chan struct{} // closed when it may go on
	moved   chan struct{} // holds a token when the queue has changed
}

// gauge is one bound that a claim has to keep to.
type gauge struct {
	what              string
	used, want, bound int64
	quota             core.Quota // "" if it is of all together
	lasting           int64      // of used, what stays until somebody ends it
}

func (g gauge) full() bool { return g.bound > 0 && g.used+g.want > g.bound }

// held: it stays full until somebody ends what lasts.
func (g gauge) held() bool { return g.bound > 0 && g.lasting+g.want > g.bound }

// gauges are the bounds that matter to the claim.
func (a *admission) gauges(w *waiter) []gauge {
	run, box := w.amounts()
	own, p := " of tenant "+w.party.name, w.party
	all := []gauge{
		{what: "boxes", used: a.used.boxes, want: box.boxes, bound: a.all.boxes, lasting: a.lasting.boxes},
		{what: "memory", used: a.used.memory, want: box.memory, bound: a.all.memory, lasting: a.lasting.memory},
		{what: "runs on " + w.backend, used: a.runs[w.backend], want: run.runs, bound: a.all.runs},
		{"boxes" + own, p.used.boxes, box.boxes, w.quota.Boxes, core.QuotaBoxes, p.lasting.boxes},
		{"memory" + own, p.used.memory, box.memory, w.quota.Memory, core.QuotaMemory, p.lasting.memory},
		{"runs" + own, p.used.runs, run.runs, w.quota.Runs, core.QuotaRuns, 0},
	}
	return slices.DeleteFunc(all, func(g gauge) bool { return g.want == 0 || g.bound == 0 })
}

// join puts a claim into its tenant's queue, from which it may be taken at once.
func (a *admission) join(c claim) (*waiter, error) {
	a.mu.Lock()
	w := &waiter{claim: c, party: a.partyOf(c.tenant), granted: make(chan struct{}), moved: make(chan struct{}, 1)}
	if slices.ContainsFunc(a.gauges(w), func(g gauge) bool { return g.want > g.bound }) {
		a.forget(w.party)
		a.mu.Unlock()
		return nil, core.Errorf(core.ErrExhausted, "a box that may use %s does not fit into the memory of all boxes", core.FormatBytes(c.memory)).
			WithHint("the operator can raise limits.max_memory or quotas.memory")
	}
	if g := a.heldFull(w); g.quota != "" {
		a.forget(w.party)
		a.mu.Unlock()
		return nil, errFull(g, "by sandboxes that stay").WithHint("end one with sandbox_stop; list_sandboxes tells which there are")
	}
	w.party.waiting = append(w.party.waiting, w)
	if len(w.party.waiting) == 1 {
		a.ring = append(a.ring, w.party)
	}
	a.dispatch()
	over := len(w.party.waiting) > a.longest
	a.mu.Unlock()
	if over && a.leave(w) {
		return nil, a.refusal(w, "%d runs wait for a place already", a.longest)
	}
	return w, nil
}

// fullOf is the tenant's own bound that keeps the claim out, if one does. The caller holds the lock.
func (a *admission) fullOf(w *waiter) gauge {
	for _, g := range a.gauges(w) {
		if g.quota != "" && g.full() {
			return g
		}
	}
	return gauge{}
}

// heldFull is the tenant's own bound that nothing makes room in but its owner. The caller holds the lock.
func (a *admission) heldFull(w *waiter) gauge {
	for _, g := range a.gauges(w) {
		if g.quota != "" && g.held() {
			return g
		}
	}
	return gauge{}
}

// isHeld reports whether boxes that stay are all that keeps the claim from the server's places. The caller holds the
// lock.
func (a *admission) isHeld(w *waiter) bool {
	return slices.ContainsFunc(a.gauges(w), func(g gauge) bool { return g.quota == "" && g.held() })
}

// leave takes a claim out of the queue; false if it has been granted already.
func (a *admission) leave(w *waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(w.party.waiting, w)
	if at < 0 {
		return false
	}
	a.remove(w.party, at)
	a.dispatch() // who stood behind it may fit
	return true
}

func (a *admission) remove(p *party, at int) {
	p.waiting = slices.Delete(p.waiting, at, at+1)
	if len(p.waiting) > 0 {
		return
	}
	a.ring = slices.DeleteFunc(a.ring, func(other *party) bool { return other == p })
	a.forget(p)
}

func (a *admission) partyOf(tenant string) *party {
	p := a.tenants[tenant]
	if p == nil {
		p = &party{name: tenant}
		a.tenants[tenant] = p
	}
	return p
}

// forget drops a tenant that has nothing and wants nothing.
func (a *admission) forget(p *party) {
	if p.used == (amounts{}) && len(p.waiting) == 0 {
		delete(a.tenants, p.name)
	}
}

// dispatch lets in all who fit. One who lacks something keeps those behind from it, but from nothing else:
// whoever waits for a backend that hangs is no hindrance to the others.
func (a *admission) dispatch() {
	lacked := map[string]bool{}
	for a.grantNext(lacked) {
	}
	for _, p := range a.ring {
		for _, w := range p.waiting {
			select {
			case w.moved <- struct{}{}:
			default:
			}
		}
	}
}

// grantNext lets in the first who fits, and puts the tenant behind the others.
func (a *admission) grantNext(lacked map[string]bool) bool {
	for i, p := range a.ring {
		for n, w := range p.waiting {
			if !a.fits(w, lacked) {
				continue
			}
			a.book(w)
			close(w.granted)
			a.ring = append(slices.Delete(a.ring, i, i+1), p)
			a.remove(p, n)
			return true
		}
	}
	return false
}

// fits also notes what the claim lacks.
func (a *admission) fits(w *waiter, lacked map[string]bool) bool {
	ok := true
	for _, g := range a.gauges(w) {
		if g.full() {
			lacked[g.what] = true
		}
		ok = ok && !lacked[g.what]
	}
	return ok
}

func (a *admission) book(w *waiter) {
	run, box := w.amounts()
	a.count(w, run, 1)
	a.count(w, box, 1)
}

// count books a part of a claim.
func (a *admission) count(w *waiter, part amounts, sign int64) {
	a.used.add(part, sign)
	w.party.used.add(part, sign)
	if w.lasting {
		stays := amounts{boxes: part.boxes, memory: part.memory}
		a.lasting.add(stays, sign)
		w.party.lasting.add(stays, sign)
	}
	a.runs[w.backend] += sign * part.runs
}

// position is the place in the queue, from 1, if tenants take turns from now on; 0 once the claim is out of it.
func (a *admission) position(w *waiter) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(w.party.waiting, w)
	if at < 0 {
		return 0
	}
	place := at + 1
	turn := slices.Index(a.ring, w.party)
	for i, p := range a.ring {
		if p == w.party {
			continue
		}
		ahead := at
		if i < turn {
			ahead++
		}
		place += min(len(p.waiting), ahead)
	}
	return place
}
