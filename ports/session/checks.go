package session

import (
	"time"

	"github.com/boxwright/boxwright/core"
)

// CheckSession is what every store asks of a session that is added.
func CheckSession(s core.Session) error {
	if s.ID == "" || s.Owner == "" {
		return core.Errorf(core.ErrInvalid, "a session has an id and an owner; this one has %.100q and %.100q", s.ID, s.Owner)
	}
	return nil
}

// CheckRun is what every store asks of a run that is put.
func CheckRun(r core.Run) error {
	if err := core.CheckRunID(r.ID); err != nil {
		return err
	}
	if r.Owner == "" {
		return core.Errorf(core.ErrInvalid, "run %s has no owner", r.ID)
	}
	if Stage(r.State) < 0 {
		return core.Errorf(core.ErrInvalid, "run %s cannot be put as %.20q", r.ID, r.State)
	}
	return nil
}

// Stage numbers the states in the order in which a run goes through them; -1 is not a state.
func Stage(s core.RunState) int {
	switch s {
	case core.RunUnderWay:
		return 0
	case core.RunLost:
		return 1
	case core.RunEnded:
		return 2
	default:
		return -1
	}
}

// CheckNext is what every store asks of the new state of a run that it keeps.
func CheckNext(now, next core.Run) error {
	if now.Owner != next.Owner || now.State == core.RunEnded || Stage(now.State) > Stage(next.State) {
		return ErrSettled(next)
	}
	return nil
}

// ErrSettled is the error of putting a run that is over, or somebody else's.
func ErrSettled(r core.Run) error {
	return core.Errorf(core.ErrInvalid, "run %s is over, or somebody else's: it cannot be put as %.20q", r.ID, r.State)
}

// ErrTaken is the error of taking over what is not there to be taken.
func ErrTaken(id, from string) error {
	return core.Errorf(core.ErrNotFound, "server %.100q has no run %.100q under way", from, id)
}

// EndOf is when a run that is over counts as ended: one that was lost at an unknown time, when it began.
func EndOf(r core.Run) time.Time {
	if r.Ended.IsZero() {
		return r.Started
	}
	return r.Ended
}

// Brief is a run without the bytes of its outputs, of what it showed, and of previews. It shares nothing with r
// that it changes.
func Brief(r core.Run) core.Run {
	record := &r.Record
	for _, out := range []*core.Output{&record.Stdout, &record.Stderr} {
		out.Head, out.Tail = nil, nil
	}
	record.Displays = append([]core.Display(nil), record.Displays...)
	for i := range record.Displays {
		record.Displays[i].Data = nil
	}
	record.Files = append([]core.Artifact(nil), record.Files...)
	for i := range record.Files {
		record.Files[i].Preview = nil
	}
	return r
}

// Trimmed is a run that has lost what Brief leaves out, and says so.
func Trimmed(r core.Run) core.Run {
	r = Brief(r)
	r.Record.Warnings = append(append([]string(nil), r.Record.Warnings...),
		"what it printed and showed is not kept here any more, as later runs took the room; its files may still be there")
	return r
}

// Bytes is how much Brief leaves out of a run.
func Bytes(r core.Run) (n int64) {
	for _, out := range []core.Output{r.Record.Stdout, r.Record.Stderr} {
		n += int64(len(out.Head) + len(out.Tail))
	}
	for _, d := range r.Record.Displays {
		n += int64(len(d.Data))
	}
	for _, f := range r.Record.Files {
		if f.Preview != nil {
			n += int64(len(f.Preview.Data))
		}
	}
	return n
}
