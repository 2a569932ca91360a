package runner

import (
	"bytes"
	"os"
	"strconv"
)

// oomKills returns how often the kernel has killed something in this box for want of memory. Where the
// box cannot see its control group it is always 0.
func oomKills() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(path) //nolint:gosec // one of two constants
		if err != nil {
			continue
		}
		return oomCount(text)
	}
	return 0
}

func oomCount(text []byte) int64 {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 2 && string(fields[0]) == "oom_kill" {
			n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return n
		}
	}
	return 0
}
