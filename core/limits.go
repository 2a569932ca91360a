package core

import (
	"fmt"
	"math"
	"strconv"
)

// Binary units of bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// The least that a box can work with.
const (
	minMemory = 32 * mib
	minCPUs   = 0.05
	minPIDs   = 32
	minDisk   = 1 * mib
)

// What a box can hold in memory besides its programs, its workspace and its temporary folder.
const (
	home     = 64 * mib     // the home folder
	shared   = 64 * mib     // /dev/shm
	kept     = 2 * 32 * mib // the longest output of each of two streams
	programs = 128 * mib
)

// diskShare: without a size of its own the workspace is at most this part of the memory.
const diskShare = 4

// DefaultLimits bound a box when nobody says otherwise.
func DefaultLimits() Limits {
	return Limits{MemoryBytes: 2 * gib, CPUs: 1, PIDs: 512, DiskBytes: 512 * mib}
}

// WithDefaults returns l with each zero field taken from d. A disk taken from d is never
// more than a quarter of the memory, because what is written to it counts as memory.
func (l Limits) WithDefaults(d Limits) Limits {
	if l.MemoryBytes == 0 {
		l.MemoryBytes = d.MemoryBytes
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	if l.PIDs == 0 {
		l.PIDs = d.PIDs
	}
	if l.DiskBytes == 0 {
		l.DiskBytes = min(d.DiskBytes, l.MemoryBytes/diskShare)
	}
	return l
}

// Validate reports the first limit that no box could work with.
func (l Limits) Validate() error {
	switch {
	case l.MemoryBytes < minMemory:
		return Errorf(ErrInvalid, "memory of %s is too little: at least %s is needed", FormatBytes(l.MemoryBytes), FormatBytes(minMemory))
	case math.IsNaN(l.CPUs) || math.IsInf(l.CPUs, 0) || l.CPUs < minCPUs:
		return Errorf(ErrInvalid, "%v CPUs are too few: at least %v is needed", l.CPUs, minCPUs)
	case l.PIDs < minPIDs:
		return Errorf(ErrInvalid, "a limit of %d processes is too low: at least %d are needed", l.PIDs, minPIDs)
	case l.DiskBytes < minDisk:
		return Errorf(ErrInvalid, "a disk of %s is too small: at least %s is needed", FormatBytes(l.DiskBytes), FormatBytes(minDisk))
	case l.DiskBytes > l.maxDisk():
		return Errorf(ErrInvalid, "a disk of %s is too big for %s of memory, as files and kept output count as memory: at most %s is allowed",
			FormatBytes(l.DiskBytes), FormatBytes(l.MemoryBytes), FormatBytes(l.maxDisk()))
	}
	return nil
}

// maxDisk is the biggest workspace that leaves programs 128 MiB of the memory when it, the temporary folder
// (half its size) and all else that counts as memory are full. In small boxes it leaves half of the memory
// to all of that.
func (l Limits) maxDisk() int64 {
	most := (l.MemoryBytes - min(programs+home+shared+kept, l.MemoryBytes/2)) / 3 * 2
	return most - most%mib
}

// FormatBytes writes a number of bytes for a person, in the biggest binary unit of which
// it is a whole multiple: "512MiB".
func FormatBytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}} {
		if n != 0 && n%unit.size == 0 {
			return fmt.Sprintf("%d%s", n/unit.size, unit.name)
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
