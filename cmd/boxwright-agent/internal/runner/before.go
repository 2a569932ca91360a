package runner

import (
	"time"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/capture"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/sweep"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/workspace"
	"github.com/boxwright/boxwright/core"
)

// before is what is known of the box when a program starts.
type before struct {
	at      time.Time
	files   *workspace.Snapshot
	outside *workspace.Outside
	strays  uint64
	oom     int64
	living  sweep.Living // nil if nothing of the run is to go on
}

func (r *Runner) look(keeps bool) before {
	b := before{
		files: r.Workspace.Snapshot(), outside: workspace.Watch(core.GuestTmp),
		oom: oomKills(), strays: r.Reaper.Strays(), at: time.Now(),
	}
	if keeps {
		b.living = r.Sweeper.Living()
	}
	return b
}

// compare tells what has become of the box since.
func (r *Runner) compare(exit *core.Exit, before before, why cause) {
	judgeMemory(exit, why, oomKills()-before.oom)
	changes := r.Workspace.Changes(before.files)
	exit.Files = changes.Files
	exit.Warnings = append(exit.Warnings, changes.Warnings...)
	if warning := before.outside.Warning(); warning != "" {
		exit.Warnings = append(exit.Warnings, warning)
	}
	if r.loseLasting() {
		exit.StateLost = true
	}
}

// judgeMemory tells a program that the kernel killed from one that lost only a child.
func judgeMemory(exit *core.Exit, why cause, kills int64) {
	switch {
	case kills <= 0 || exit.OOMKilled:
	case why == byItself && exit.Signal == "SIGKILL":
		exit.OOMKilled = true
	default:
		exit.Warnings = append(exit.Warnings, "a process of the program was killed because the box ran out of memory")
	}
}

func output(c *capture.Capture) core.Output {
	result := c.Result()
	return core.Output{Head: result.Head, Tail: result.Tail, Total: result.Total, Spilled: result.Spilled}
}
