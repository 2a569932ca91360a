package app

import (
	"context"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// probeLimit bounds the time in which a backend must tell about itself to be taken as working.
const probeLimit = 20 * time.Second

// join returns the search that found the default, or that is under way, or a new one.
func (b *Backends) join() *search {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.search != nil && !b.search.failed() {
		return b.search
	}
	s := &search{done: make(chan struct{})}
	if b.closed {
		s.err = closedError()
		close(s.done)
		return s
	}
	b.search = s
	b.work.do("looked for a backend", func() {
		defer close(s.done)
		s.err = safely(b.log, "looked for a backend", func() (err error) {
			s.name, err = b.find()
			return err
		})
	})
	return s
}

func (s *search) failed() bool {
	select {
	case <-s.done:
		return s.err != nil
	default:
		return false
	}
}

// reason is why a backend was not chosen.
type reason struct {
	name string
	err  error
}

// find asks one backend after another whether it works. A later one is not even started when an
// earlier one does; those that were started in vain are stopped, once one is chosen.
func (b *Backends) find() (string, error) {
	var reasons []reason
	for _, name := range b.prefer.Names {
		err := b.probe(name)
		if err == nil {
			_, err = b.Get(name)
		}
		if err == nil {
			b.log.Info(choiceText(name, b.prefer.Names, reasons))
			b.stopOthers(name)
			return name, nil
		}
		if b.closing.Err() != nil {
			return "", closedError()
		}
		reasons = append(reasons, reason{name, err})
	}
	return "", noneWorks(reasons)
}

// probe starts a backend if it is there, and asks whether it can do its work.
func (b *Backends) probe(name string) error {
	if err := b.sources[name].Installed(); err != nil {
		return err
	}
	plugin, err := b.start(name, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(b.closing, probeLimit)
	defer cancel()
	info, err := plugin.Info(ctx)
	if err != nil {
		return err
	}
	return checkHeld(info, b.prefer.Unenforced)
}

// checkHeld refuses a backend that cannot make a limit hold, unless the operator is content with a
// warning.
func checkHeld(info core.Info, policy core.Unenforced) error {
	_, err := core.BoxSpec{Unenforced: policy}.CheckHeld(info.Limits)
	return err
}

// choiceText is the line that says which backend is used and why.
func choiceText(name string, all []string, reasons []reason) string {
	if len(reasons) == 0 {
		return "using " + name + ": the first of " + strings.Join(all, ", ") + " that works here"
	}
	why := make([]string, len(reasons))
	for i, r := range reasons {
		why[i] = r.name + " does not work here (" + r.err.Error() + ")"
	}
	return "using " + name + ": " + strings.Join(why, "; ")
}

// noneWorks lists what keeps each backend from working, and how to mend it.
func noneWorks(reasons []reason) error {
	var text strings.Builder
	for _, r := range reasons {
		text.WriteString("\n- " + r.name + ": " + r.err.Error())
	}
	return core.Errorf(core.ErrUnavailable, "no backend works here:%s", text.String()).
		WithHint("mend one of them and try again; the server need not be restarted")
}
