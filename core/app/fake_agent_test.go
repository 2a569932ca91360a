package app_test

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// zoneOf is the volume that a box has its environments in.
func (w *world) zoneOf(box string) (zone core.Mount) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.mounts[box] {
		if m.Path == core.GuestEnvironments {
			zone = m
		}
	}
	return zone
}

// lost reports whether a box is gone.
func (w *world) lost(box string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, there := w.boxes[box]
	return !there
}

// agent does what the agent's own commands do to a zone.
func (g guest) agent(_ context.Context, args []string) core.Exit {
	zone, kept := g.zoneOf(g.box), core.Kept{Bytes: 100, Entries: 3}
	if err := g.step("courier"); err != nil {
		kept = core.Kept{Failure: core.FailureOf(err)}
	}
	if err := g.step(args[0]); err != nil && kept.Failure.Kind == "" {
		kept.Failure = core.FailureOf(err)
	}
	if g.step("entries") != nil {
		kept = core.Kept{Failure: kept.Failure}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !zone.Writable || g.boxes[g.box].Labels.Purpose != core.PurposeKeep:
		kept.Failure = core.FailureOf(core.Errorf(core.ErrInternal, "this box may not write to the zone"))
	case kept.Failure.Kind != "":
	case args[0] == "add" && !g.folders[zone.Volume+"/"+path.Base(args[len(args)-1])]:
		kept.Failure = core.FailureOf(core.Errorf(core.ErrInternal, "there is no such environment"))
	case args[0] == "keep" && g.folders[zone.Volume+"/"+path.Base(args[len(args)-1])]:
		kept.Failure = core.FailureOf(core.Errorf(core.ErrInternal, "there is a copy already"))
	case args[0] == "keep":
		g.folders[zone.Volume+"/"+path.Base(args[len(args)-1])] = true
	case args[0] == "drop":
		for _, target := range args[1:] {
			delete(g.folders, zone.Volume+"/"+path.Base(target))
		}
	}
	text, _ := json.Marshal(kept)
	if g.fail["answer"] != nil {
		text = []byte("no answer")
	}
	return core.Exit{Stdout: core.Output{Head: append(text, '\n')}}
}

// missing returns a folder on the path that is not in the box's zone.
func (g guest) missing(folders []string) string {
	zone := g.zoneOf(g.box)
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.IndexFunc(folders, func(folder string) bool {
		name, within := strings.CutPrefix(folder, core.GuestEnvironments+"/"+core.ZoneFolder+"/")
		return !within || !g.folders[zone.Volume+"/"+name]
	})
	if at < 0 {
		return ""
	}
	return folders[at]
}

// zones are the volumes of zones, and folders what is in them.
func (w *world) zones() (zones, folders []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, volume := range w.volumes {
		if volume.Labels.Purpose == core.PurposeZone {
			zones = append(zones, name)
		}
	}
	for name := range w.folders {
		folders = append(folders, name)
	}
	slices.Sort(zones)
	slices.Sort(folders)
	return zones, folders
}
