package core

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestLimitsWithDefaults(t *testing.T) {
	tests := []struct {
		name string
		in   Limits
		want Limits
	}{
		{"nothing given", Limits{}, DefaultLimits()},
		{"little memory shrinks the disk", Limits{MemoryBytes: 256 * mib}, Limits{256 * mib, 1, 512, 64 * mib}},
		{"much memory leaves the disk", Limits{MemoryBytes: 8 * gib}, Limits{8 * gib, 1, 512, 512 * mib}},
		{"what is given stays", Limits{1 * gib, 2, 64, 300 * mib}, Limits{1 * gib, 2, 64, 300 * mib}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.WithDefaults(DefaultLimits()); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLimitsValidate(t *testing.T) {
	tests := []struct {
		name string
		in   Limits
		want string // a part of the sentence; "" is valid
	}{
		{"defaults", DefaultLimits(), ""},
		{"the smallest box", Limits{MemoryBytes: 32 * mib, PIDs: 32, CPUs: 0.05}, ""},
		{"memory", Limits{MemoryBytes: 31 * mib}, "memory of 31MiB is too little: at least 32MiB"},
		{"negative memory", Limits{MemoryBytes: -1}, "memory of -1B is too little"},
		{"cpu", Limits{CPUs: 0.01}, "0.01 CPUs are too few: at least 0.05"},
		{"cpu is no number", Limits{CPUs: math.NaN()}, "NaN CPUs"},
		{"cpu is infinite", Limits{CPUs: math.Inf(1)}, "+Inf CPUs"},
		{"pids", Limits{PIDs: 31}, "a limit of 31 processes is too low: at least 32"},
		{"disk too small", Limits{DiskBytes: 1000}, "a disk of 1000B is too small: at least 1MiB"},
		{"disk too big", Limits{MemoryBytes: 1 * gib, DiskBytes: 800 * mib}, "a disk of 800MiB is too big for 1GiB of memory"},
		{"disk as big as can be", Limits{MemoryBytes: 1 * gib, DiskBytes: 469 * mib}, ""},
		{"a MiB more", Limits{MemoryBytes: 1 * gib, DiskBytes: 470 * mib}, "as files and kept output count as memory: at most 469MiB is allowed"},
		{"disk as big as can be in a small box", Limits{MemoryBytes: 96 * mib, DiskBytes: 32 * mib}, ""},
		{"a MiB more in a small box", Limits{MemoryBytes: 96 * mib, DiskBytes: 33 * mib}, "at most 32MiB is allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.in.WithDefaults(DefaultLimits()).Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFullBox: what can fill up leaves 128 MiB to programs, where there are as many.
func TestFullBox(t *testing.T) {
	for memory := int64(minMemory); memory <= 8*gib; memory += 32 * mib {
		l := Limits{MemoryBytes: memory}.WithDefaults(DefaultLimits())
		if err := l.Validate(); err != nil {
			t.Errorf("%s with defaults is refused: %v", FormatBytes(memory), err)
		}
		l.DiskBytes = l.maxDisk()
		const others = (64 + 64 + 2*32) * mib
		left := memory - l.DiskBytes/2*3
		if memory >= 2*(128*mib+others) && left-others < 128*mib || left < memory/2 && left < 128*mib+others {
			t.Errorf("%s: a disk of %s leaves %s", FormatBytes(memory), FormatBytes(l.DiskBytes), FormatBytes(left))
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add(int64(0), 0.0, int64(0), int64(0))
	f.Add(int64(32*mib), 0.05, int64(16), int64(0))
	f.Fuzz(func(t *testing.T, memory int64, cpus float64, pids, disk int64) {
		l := Limits{memory, cpus, pids, disk}.WithDefaults(DefaultLimits())
		if l.Validate() != nil {
			return
		}
		if l.DiskBytes > math.MaxInt64/3 || l.DiskBytes/2*3 >= l.MemoryBytes {
			t.Errorf("%+v: a full disk leaves programs no memory", l)
		}
		if again := l.WithDefaults(DefaultLimits()); again != l {
			t.Errorf("defaults change %+v to %+v", l, again)
		}
	})
}
