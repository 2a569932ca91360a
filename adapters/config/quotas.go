package config

import "github.com/boxwright/boxwright/core"

// Quotas bound what one principal may have. A client on stdio is one principal.
type Quotas struct {
	// Boxes is how many boxes at once: of runs, sessions and installations. 0: limits.max_boxes.
	Boxes int64 `koanf:"boxes"`
	// Runs is how many runs at once, on all backends together. 0: runs.max_concurrent of each.
	Runs int64 `koanf:"runs"`
	// Memory bounds limits.memory of all boxes together, in bytes. 0: limits.max_memory.
	Memory Size `koanf:"memory"`
	// CPUSeconds bounds the processor time of runs in a window: how long they run, times limits.cpus. 0: no bound.
	CPUSeconds int64 `koanf:"cpu_seconds"`
	// CPUWindow is how long a window is.
	CPUWindow Duration `koanf:"cpu_window"`
	// Files bounds the files that are kept, in bytes. 0: files.max_bytes of all together.
	Files Size `koanf:"files"`
	// CallsPerMinute bounds the calls in any minute. 0: no bound.
	CallsPerMinute int64 `koanf:"calls_per_minute"`
	// Principals have others.
	Principals []QuotasOf `koanf:"principals" empty:"falls back" example:"{principal: ann, boxes: 10}"`
}

// QuotasOf are one principal's. What is 0 is as for everybody.
type QuotasOf struct {
	// Principal is the principal's id, or a user's name.
	Principal      string `koanf:"principal"`
	Boxes          int64  `koanf:"boxes"`
	Runs           int64  `koanf:"runs"`
	Memory         Size   `koanf:"memory"`
	CPUSeconds     int64  `koanf:"cpu_seconds"`
	Files          Size   `koanf:"files"`
	CallsPerMinute int64  `koanf:"calls_per_minute"`
	// Origin is where they stand, for messages; no key of a file.
	Origin string `koanf:"origin"`
}

// quotas are the same as everybody's are written.
func (q QuotasOf) quotas() Quotas {
	return Quotas{
		Boxes: q.Boxes, Runs: q.Runs, Memory: q.Memory, CPUSeconds: q.CPUSeconds, Files: q.Files, CallsPerMinute: q.CallsPerMinute,
	}
}

// Of returns the quotas of those that have others, by the principal's id or a user's name.
func (q Quotas) Of() map[string]Quotas {
	of := map[string]Quotas{}
	for _, p := range q.Principals {
		of[p.Principal] = p.quotas()
	}
	return of
}

// maxCPUSeconds is how much fits into a time.
const maxCPUSeconds = 1 << 32

func (v *validator) quotas(c Config) {
	v.bounds("quotas.", c.Quotas, c.Limits)
	v.check(c.Quotas.CPUWindow >= seconds(60), "quotas.cpu_window is %s, but must be at least 1m", c.Quotas.CPUWindow)
	seen := map[string]bool{}
	for _, q := range c.Quotas.Principals {
		err := core.CheckPrincipalID(q.Principal)
		v.under(q.Origin, err)
		who := core.FoldUserName(q.Principal)
		v.check(err != nil || !seen[who], "%s: %q has quotas already", q.Origin, q.Principal)
		seen[who] = true
		v.bounds(q.Origin+": ", q.quotas(), c.Limits)
	}
}

// bounds checks those of one, or of everybody.
func (v *validator) bounds(before string, q Quotas, l Limits) {
	for _, b := range []struct {
		name  string
		bound int64
	}{{"boxes", q.Boxes}, {"runs", q.Runs}, {"files", int64(q.Files)}, {"calls_per_minute", q.CallsPerMinute}} {
		v.check(b.bound >= 0, "%s%s is %d, but must not be below 0", before, b.name, b.bound)
	}
	v.check(q.CPUSeconds >= 0 && q.CPUSeconds <= maxCPUSeconds, "%scpu_seconds is %d, but must be from 0 to %d", before, q.CPUSeconds, int64(maxCPUSeconds))
	v.room(before+"memory", q.Memory, l)
}
