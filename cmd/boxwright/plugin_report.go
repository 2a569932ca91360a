package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// verdict is what was found out about one sentence.
type verdict string

const (
	kept       verdict = "kept"
	broken     verdict = "broken"
	notClaimed verdict = "not claimed"
	notReached verdict = "not reached"
)

// finding is one sentence and its verdict.
type finding struct {
	Check    string  `json:"check"`
	Sentence string  `json:"sentence"`
	Verdict  verdict `json:"verdict"`
	Detail   string  `json:"detail,omitempty"` // what was seen, or why it is not claimed
}

// verification is the report on one plugin.
type verification struct {
	env executiontest.Env

	Plugin     string    `json:"plugin"`
	Name       string    `json:"name"`
	Version    string    `json:"version"`
	Engine     string    `json:"engine"`
	Platform   string    `json:"platform"`
	Image      string    `json:"image"`
	Findings   []finding `json:"sentences"`
	Kept       int       `json:"kept"`
	Broken     int       `json:"broken"`
	NotClaimed int       `json:"not_claimed"`
	NotReached int       `json:"not_reached"`
}

func newVerification(env executiontest.Env, info core.Info, path string) *verification {
	if path == "" {
		path = info.Name
	}
	return &verification{
		env: env, Plugin: path, Name: info.Name, Version: info.Version, Platform: info.Platform, Image: env.Image,
		Engine: strings.TrimSpace(info.Engine + " " + info.EngineVersion),
	}
}

// finish makes the checks, writes the report and returns what it comes to.
func (v *verification) finish(ctx context.Context, out io.Writer, asJSON bool) error {
	text := out
	if asJSON {
		text = io.Discard
	}
	v.head(text)
	for _, c := range executiontest.Checks() {
		f := v.check(ctx, c)
		v.count(f)
		f.print(text)
	}
	v.tail(text)
	left := executiontest.Sweep(context.WithoutCancel(ctx), v.env)
	if asJSON {
		if err := writeJSON(out, v); err != nil {
			return exitError{err, exitNotVerified}
		}
	}
	return v.outcome(ctx, left)
}

// outcome is nil if no sentence is broken. One that is counts more than those that were not reached.
func (v *verification) outcome(ctx context.Context, left error) error {
	switch {
	case v.Broken > 0:
		return exitError{core.Errorf(core.ErrUnsupported, "%s does not keep %d of the %d sentences%s", v.Name, v.Broken, len(v.Findings), v.unreached()), exitBroken}
	case v.NotReached > 0:
		return exitError{endedEarly(ctx), exitNotVerified}
	case left != nil:
		return exitError{core.Errorf(core.KindOf(left), "what was made could not be removed: %w", left), exitBroken}
	}
	return nil
}

func (v *verification) unreached() string {
	if v.NotReached == 0 {
		return ""
	}
	return fmt.Sprintf("; %d were not reached", v.NotReached)
}

// check makes one check, and removes what it leaves. The agent's volume stays for the next one.
func (v *verification) check(ctx context.Context, c executiontest.Check) finding {
	f := finding{Check: c.Name, Sentence: c.Clause}
	if ctx.Err() != nil {
		f.Verdict = notReached
		return f
	}
	bounded, cancel := context.WithTimeout(ctx, executiontest.Timeout)
	defer cancel()
	err := c.Run(bounded, v.env)
	swept := executiontest.Sweep(context.WithoutCancel(ctx), v.env, core.PurposeAgent)
	switch {
	case ctx.Err() != nil && err != nil:
		f.Verdict = notReached
	case executiontest.Skipped(err):
		f.Verdict, f.Detail = notClaimed, whyNotClaimed(executiontest.MissingHook(err))
	case err != nil:
		f.Verdict, f.Detail = broken, err.Error()
	case swept != nil:
		f.Verdict, f.Detail = broken, "what it made could not be removed: "+swept.Error()
	default:
		f.Verdict = kept
	}
	return f
}

// whyNotClaimed explains a hook that verify lacks.
func whyNotClaimed(hook string) string {
	const authors = "only a test of its author's can "
	switch hook {
	case "Weak":
		return "it says that every limit holds"
	case "MissingImage":
		return "name an image that no registry has with --missing-image"
	case "Registry":
		return authors + "offer an image to fetch"
	case "Fail":
		return authors + "make its engine fail halfway"
	case "ForeignBox", "ForeignVolume":
		return authors + "make something foreign in its engine"
	case "Down":
		return authors + "take its engine away"
	}
	return "verify has no hook " + hook
}

func (v *verification) count(f finding) {
	v.Findings = append(v.Findings, f)
	for verdict, n := range map[verdict]*int{kept: &v.Kept, broken: &v.Broken, notClaimed: &v.NotClaimed, notReached: &v.NotReached} {
		if f.Verdict == verdict {
			*n++
		}
	}
}

func (v *verification) head(w io.Writer) {
	say(w, "%s %s on %s (%s), boxes of %s\n\n", v.Name, v.Version, v.Engine, v.Platform, v.Image)
}

func (f finding) print(w io.Writer) {
	say(w, "%-12s %-26s %s\n", f.Verdict, f.Check, f.Sentence)
	if f.Detail != "" {
		label := "because"
		if f.Verdict == broken {
			label = "seen"
		}
		say(w, "%39s %s: %s\n", "", label, strings.ReplaceAll(f.Detail, "\n", "; "))
	}
}

func (v *verification) tail(w io.Writer) {
	parts := []string{fmt.Sprintf("%d kept", v.Kept), fmt.Sprintf("%d broken", v.Broken), fmt.Sprintf("%d not claimed", v.NotClaimed)}
	if v.NotReached > 0 {
		parts = append(parts, fmt.Sprintf("%d not reached", v.NotReached))
	}
	say(w, "\n%d sentences: %s\n", len(v.Findings), strings.Join(parts, ", "))
}

// say writes for a person; one who has left misses it.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
