package core

import "time"

// Quota is something that a principal may have only so much of.
type Quota string

// The quotas.
const (
	QuotaBoxes  Quota = "boxes"       // at once: of runs, sessions and installations
	QuotaRuns   Quota = "runs"        // at once
	QuotaMemory Quota = "memory"      // bytes that these boxes may use together
	QuotaCPU    Quota = "cpu_seconds" // of processors that runs had, in a window of time
	QuotaFiles  Quota = "files"       // bytes of files that are kept
	QuotaCalls  Quota = "calls"       // in a minute
)

// Meter is how much of one quota a principal uses.
type Meter struct {
	Quota Quota
	Used  int64
	Limit int64     // 0: none
	Free  time.Time // when some of it is free again by itself; zero where that cannot be known, or all is free
}

// Holding is what a principal keeps of one run's files.
type Holding struct {
	Run   string
	Owner string
	Bytes int64
	Since time.Time
}
