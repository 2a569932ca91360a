package app

import (
	"cmp"
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Quota bounds what one tenant may have. A zero field is no bound of its own.
type Quota struct {
	Boxes  int64         // at once: of runs, sessions and installations
	Runs   int64         // at once, on all backends together
	Memory int64         // bytes: the sum of what these boxes may use
	CPU    time.Duration // of processors that runs have, in a window of Settings.QuotaWindow
	Files  int64         // bytes of files that are kept
	Calls  int64         // in any minute
}

// quotaOf is the tenant's: its own, and for what that leaves open everybody's. What the server does by itself has none.
// Only users have quotas by their name: what a token says of its bearer's may be anybody's.
func (s *Service) quotaOf(ctx context.Context, tenant string) Quota {
	if tenant == "" {
		return Quota{}
	}
	own, has := s.settings.Quotas[tenant]
	if p, known := core.PrincipalOf(ctx); !has && known && p.ID == tenant && p.IsUser {
		own = s.settings.quotaOfUser(p.Name)
	}
	all := s.settings.Quota
	return Quota{
		Boxes: cmp.Or(own.Boxes, all.Boxes), Runs: cmp.Or(own.Runs, all.Runs), Memory: cmp.Or(own.Memory, all.Memory),
		CPU: cmp.Or(own.CPU, all.CPU), Files: cmp.Or(own.Files, all.Files), Calls: cmp.Or(own.Calls, all.Calls),
	}
}

func (s Settings) quotaOfUser(name string) Quota {
	for who, quota := range s.Quotas {
		if core.SameUserName(who, name) {
			return quota
		}
	}
	return Quota{}
}

// errFull is the error of a quota that has no room; by tells what takes it, and may be "".
func errFull(g gauge, by string) *core.Error {
	used, bound := core.FormatBytes(g.used), core.FormatBytes(g.bound)
	if g.quota != core.QuotaMemory && g.quota != core.QuotaFiles {
		used, bound = plain(g.used), plain(g.bound)
	}
	if by != "" {
		by = " " + by
	}
	return core.Errorf(core.ErrExhausted, "your quota of %s is full: %s of %s are used%s", quotaName(g.quota), used, bound, by)
}

// quotaName is what people call a quota.
func quotaName(q core.Quota) string {
	switch q {
	case core.QuotaBoxes:
		return "boxes"
	case core.QuotaRuns:
		return "runs at once"
	case core.QuotaMemory:
		return "memory"
	case core.QuotaCPU:
		return "processor time, in seconds,"
	case core.QuotaFiles:
		return "kept files"
	case core.QuotaCalls:
		return "calls in a minute"
	default:
		return string(q)
	}
}

// Usage tells how much of each quota the owner uses.
func (s *Service) Usage(ctx context.Context, owner string) ([]core.Meter, error) {
	quota, now := s.quotaOf(ctx, owner), s.admission.usedBy(owner)
	cpu, end, err := s.spending.spent(ctx, owner)
	if err != nil {
		return nil, err
	}
	files, err := s.filesOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	files.Limit = quota.Files
	list := []core.Meter{
		{Quota: core.QuotaBoxes, Used: now.boxes, Limit: quota.Boxes},
		{Quota: core.QuotaRuns, Used: now.runs, Limit: quota.Runs},
		{Quota: core.QuotaMemory, Used: now.memory, Limit: quota.Memory},
		{Quota: core.QuotaCPU, Used: seconds(cpu), Limit: seconds(quota.CPU), Free: end},
		files,
	}
	return list, nil
}

// filesOf is what the owner keeps of files.
func (s *Service) filesOf(ctx context.Context, owner string) (core.Meter, error) {
	meter := core.Meter{Quota: core.QuotaFiles}
	all, err := s.ports.Usage.Holdings(ctx, owner)
	for _, h := range all {
		if meter.Used == 0 && h.Bytes > 0 && s.settings.KeepFiles > 0 {
			meter.Free = h.Since.Add(s.settings.KeepFiles)
		}
		meter.Used += h.Bytes
	}
	return meter, err
}

// seconds rounds up, so that nothing used is never shown for something.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// afford sets the processor time aside that the program may need, each time before it runs.
func (r *run) afford(ctx context.Context) error {
	booking, err := r.spending.reserve(ctx, r.tenant, r.cpuTime(r.spec.Timeout), r.quotaOf(ctx, r.tenant).CPU)
	if err == nil {
		r.bookings = append(r.bookings, booking)
	}
	return err
}

// pay counts what the program had, and gives the rest back. To be ended takes a moment that is not its own.
func (r *run) pay() {
	phases, _ := r.clock.stop()
	had := r.cpuTime(phases[core.PhaseRun])
	for _, booking := range r.bookings {
		part := min(had, r.cpuTime(r.spec.Timeout))
		booking(part)
		had -= part
	}
}

// cpuTime is the processor time that a program has in so long: of the share that its box is given, used or not.
func (s *Service) cpuTime(took time.Duration) time.Duration {
	return time.Duration(float64(took) * s.settings.Limits.CPUs)
}
