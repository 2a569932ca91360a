package watch

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/gvisor"
	"github.com/boxwright/boxwright/core"
)

func newMeter(bounds Bounds) meter {
	if gvisor.Inside() {
		return meter{memory: newSandbox(sandboxItself(), bounds.Memory).memory}
	}
	swaps, _ := os.ReadFile("/proc/swaps")
	m := &procMeter{root: "/proc", swap: bytes.Count(swaps, []byte("\n")) > 1}
	return meter{memory: m.memory, tasks: m.tasks}
}

// sandbox asks gVisor, whose figures are about this box only. It counts processes itself, by the limit that
// Confine sets.
type sandbox struct {
	own int64 // bytes that gVisor may need itself before that counts as the program's
}

// sandboxHeap is that at least: with a hundred processes gVisor needs a third of it.
const sandboxHeap = 64 << 20

// newSandbox is for a program that begins now: what gVisor has kept of an earlier one's, and will not give back
// until it needs more, is not this one's; but not without bound.
func newSandbox(itself []byte, bound int64) sandbox {
	return sandbox{min(max(kilobytes(itself, "HeapAlloc:"), sandboxHeap), sandboxHeap+bound)}
}

func (s sandbox) memory(int64) int64 {
	programs, _ := os.ReadFile("/proc/meminfo")
	return s.bytes(programs, sandboxItself())
}

// bytes is what programs have, with what gVisor holds for them: buffers of sockets and pipes.
func (s sandbox) bytes(programs, itself []byte) int64 {
	return kilobytes(programs, "AnonPages:") + max(0, kilobytes(itself, "HeapAlloc:")-s.own)
}

func sandboxItself() []byte {
	itself, _ := os.ReadFile("/proc/sentry-meminfo")
	return itself
}

// kilobytes returns the sum of a field's values in a text of /proc, in bytes.
func kilobytes(text []byte, name string) (sum int64) {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			sum += n << 10
		}
	}
	return sum
}

// procMeter measures by what /proc tells of each process of the box.
type procMeter struct {
	root string // "/proc"
	swap bool   // the machine has some, so that memory can be in use without being resident

	held    held // when last looked for
	heldAge time.Time
}

// process is what is known of one.
type process struct {
	pid   string
	tasks int64
	rss   int64 // bytes, with what it shares with others, and with what is swapped out
}

// tasks counts processes, and their threads if the processes alone are not too many yet: the more there are,
// the longer each look at one takes.
func (m *procMeter) tasks(enough int64) (n int64) {
	pids := m.pids()
	if n = int64(len(pids)); n > enough+spare {
		return n
	}
	n = 0
	for _, p := range m.all(pids) {
		n += p.tasks
	}
	return n
}

// spare is for processes that do not count: the agent and those that carry the host's stream.
const spare = 16

// memory begins with what is quick and never too little: all that processes have in memory, as if nothing
// were shared. Only when that is more than enough does it look closer.
func (m *procMeter) memory(enough int64) int64 {
	all := m.all(m.pids())
	open := m.open(all)
	sum := tmpfsBytes() + open.unnamed + open.buffers + detached()
	for _, p := range all {
		sum += p.rss
	}
	if sum <= enough {
		return sum
	}
	sum = m.exact(all)
	for range looks(len(all)) {
		if sum <= enough {
			break
		}
		sum = min(sum, m.exact(m.all(m.pids())))
	}
	return sum
}

// looks is how often more than enough memory is looked at once more: what processes share is counted too high
// while new sharers come, as the interpreter's next copy may do at any time. The more processes there are, the
// longer a look takes, and the less a new one matters.
func looks(processes int) int {
	const alone, few = 2, 12 // the agent and one more; a program with some helpers
	switch {
	case processes <= alone:
		return 0
	case processes <= few:
		return 3
	}
	return 1
}

func (m *procMeter) all(pids []string) (all []process) {
	for _, pid := range pids {
		if p, ok := m.read(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// pids returns all processes that are in the namespace.
func (m *procMeter) pids() []string {
	dir, err := os.Open(m.root)
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	pids := names[:0]
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			pids = append(pids, name)
		}
	}
	return pids
}

// read leaves out what is of the host's: the processes that carry its stream. The agent's own threads do not
// count as the box's.
func (m *procMeter) read(pid string) (process, bool) {
	var owner unix.Stat_t
	if err := unix.Stat(m.root+"/"+pid, &owner); err != nil || owner.Uid == core.DialUID {
		return process{}, false
	}
	text, err := os.ReadFile(m.root + "/" + pid + "/stat") //nolint:gosec // a number below /proc
	if err != nil {
		return process{}, false
	}
	p, ok := parseStat(text)
	if m.swap {
		status, _ := os.ReadFile(m.root + "/" + pid + "/status") //nolint:gosec // a number below /proc
		p.rss += kilobytes(status, "VmSwap:")
	}
	p.pid = pid
	if pid == "1" {
		p.tasks = 0
	}
	return p, ok
}

// parseStat reads the fields 20 and 24, which come after a name that may hold anything.
func parseStat(text []byte) (process, bool) {
	const afterName, threads, rss = 3, 20, 24
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return process{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= rss-afterName {
		return process{}, false
	}
	tasks, err := strconv.ParseInt(string(fields[threads-afterName]), 10, 64)
	pages, rssErr := strconv.ParseInt(string(fields[rss-afterName]), 10, 64)
	return process{tasks: tasks, rss: pages * int64(os.Getpagesize())}, err == nil && rssErr == nil
}
