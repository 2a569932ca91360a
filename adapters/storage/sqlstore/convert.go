package sqlstore

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/session"
)

// each converts a list; none stays none.
func each[A, B any](list []A, convert func(A) B) []B {
	var converted []B
	for _, item := range list {
		converted = append(converted, convert(item))
	}
	return converted
}

func toText(s string) text   { return text(s) }
func fromText(t text) string { return string(t) }

func encodeSession(s core.Session) (string, error) {
	encoded, err := json.Marshal(storedSession{
		ID: text(s.ID), Owner: text(s.Owner), Name: text(s.Name), Client: text(s.Client),
		Backend: text(s.Backend), Box: text(s.Box), Server: text(s.Server), Call: text(s.Call), Image: storeImage(s.Image),
		Requirements: each(s.Requirements, toText), PythonPath: each(s.PythonPath, toText), Installs: each(s.Installs, storeInstall),
		Created: s.Created.UTC(), Used: s.Used.UTC(), IdleTimeout: s.IdleTimeout, MaxAge: s.MaxAge, Lost: text(s.Lost),
	})
	return string(encoded), unstorable(err)
}

// unstorable is the error of a time beyond the year 9999; nothing else fails.
func unstorable(err error) error {
	if err == nil {
		return nil
	}
	return core.Errorf(core.ErrInvalid, "it cannot be kept: %w", err)
}

func (d *Store) decodeSession(encoded []byte) (core.Session, error) {
	var s storedSession
	if err := json.Unmarshal(encoded, &s); err != nil {
		return core.Session{}, d.on.Damaged(err)
	}
	return core.Session{
		ID: string(s.ID), Owner: string(s.Owner), Name: string(s.Name), Client: string(s.Client),
		Backend: string(s.Backend), Box: string(s.Box), Server: string(s.Server), Call: string(s.Call), Image: loadImage(s.Image),
		Requirements: each(s.Requirements, fromText), PythonPath: each(s.PythonPath, fromText), Installs: each(s.Installs, loadInstall),
		Created: s.Created, Used: s.Used, IdleTimeout: s.IdleTimeout, MaxAge: s.MaxAge, Lost: string(s.Lost),
	}, nil
}

// encodeEnvironment leaves the lock and the report out.
func encodeEnvironment(e core.Environment) (string, error) {
	encoded, err := json.Marshal(storedEnvironment{
		Key: text(e.Key), Backend: text(e.Backend), Zone: text(e.Zone), Folder: text(e.Folder), Language: text(e.Language),
		Names: each(e.Names, toText), Size: e.Size, Compiled: e.Compiled, Created: e.Created.UTC(), Used: e.Used.UTC(),
	})
	return string(encoded), unstorable(err)
}

func (d *Store) decodeEnvironment(encoded []byte) (core.Environment, error) {
	var e storedEnvironment
	if err := json.Unmarshal(encoded, &e); err != nil {
		return core.Environment{}, d.on.Damaged(err)
	}
	return core.Environment{
		Key: string(e.Key), Backend: string(e.Backend), Zone: string(e.Zone), Folder: string(e.Folder), Language: core.Language(e.Language),
		Names: each(e.Names, fromText), Size: e.Size, Compiled: e.Compiled, Created: e.Created, Used: e.Used,
	}, nil
}

// encodeRun returns a run as lists show it and the whole of it, or nil if there is no more.
func encodeRun(r core.Run) (brief string, whole any, err error) {
	short := session.Brief(r)
	encoded, err := json.Marshal(storeRun(short))
	if err != nil || reflect.DeepEqual(short, r) {
		return string(encoded), nil, unstorable(err)
	}
	all, err := json.Marshal(storeRun(r))
	return string(encoded), string(all), unstorable(err)
}

func (d *Store) decodeRun(encoded []byte) (core.Run, error) {
	var r storedRun
	if err := json.Unmarshal(encoded, &r); err != nil {
		return core.Run{}, d.on.Damaged(err)
	}
	return core.Run{
		ID: string(r.ID), Owner: string(r.Owner), Session: string(r.Session), Backend: string(r.Backend), Box: string(r.Box), InBox: string(r.InBox),
		Server: string(r.Server), Language: string(r.Language), Summary: string(r.Summary), State: core.RunState(r.State),
		Started: r.Started, Begun: r.Begun, Ended: r.Ended, Timeout: r.Timeout, Record: loadRecord(r.Record),
		Failure: loadFailure(r.Failure),
	}, nil
}

func storeRun(r core.Run) storedRun {
	return storedRun{
		ID: text(r.ID), Owner: text(r.Owner), Session: text(r.Session), Backend: text(r.Backend), Box: text(r.Box), InBox: text(r.InBox),
		Server: text(r.Server), Language: text(r.Language), Summary: text(r.Summary), State: text(r.State),
		Started: r.Started.UTC(), Begun: r.Begun.UTC(), Ended: r.Ended.UTC(), Timeout: r.Timeout, Record: storeRecord(r.Record),
		Failure: storeFailure(r.Failure),
	}
}

func storeFailure(f core.Failure) storedFailure {
	return storedFailure{Kind: text(f.Kind), Message: text(f.Message), Hint: text(f.Hint)}
}

func loadFailure(f storedFailure) core.Failure {
	return core.Failure{Kind: core.Kind(f.Kind), Message: string(f.Message), Hint: string(f.Hint)}
}

func storeInstall(i core.PackageInstall) storedInstall {
	return storedInstall{
		Packages: each(i.Packages, toText), State: text(i.State), Server: text(i.Server),
		Started: i.Started.UTC(), Ended: i.Ended.UTC(), Log: text(i.Log), Failure: storeFailure(i.Failure),
	}
}

func loadInstall(i storedInstall) core.PackageInstall {
	return core.PackageInstall{
		Packages: each(i.Packages, fromText), State: core.InstallState(i.State), Server: string(i.Server),
		Started: i.Started, Ended: i.Ended, Log: string(i.Log), Failure: loadFailure(i.Failure),
	}
}

func storeRecord(r core.Record) storedRecord {
	return storedRecord{
		RunID: text(r.RunID), Status: text(r.Status), ExitCode: r.ExitCode, Signal: text(r.Signal),
		TimedOut: r.TimedOut, OOMKilled: r.OOMKilled, Cancelled: r.Cancelled,
		Stdout: storedOutput(r.Stdout), Stderr: storedOutput(r.Stderr),
		Durations: storeDurations(r.Durations), Total: r.Total,
		Files: each(r.Files, storeFile), Warnings: each(r.Warnings, toText), Install: text(r.Install), AutoInstalled: each(r.AutoInstalled, toText), Hint: text(r.Hint),
		Displays: each(r.Displays, storeDisplay),
		Session:  text(r.Session), Backend: text(r.Backend), Image: storeImage(r.Image),
	}
}

func loadRecord(r storedRecord) core.Record {
	return core.Record{
		RunID: string(r.RunID), Status: core.Status(r.Status), ExitCode: r.ExitCode, Signal: string(r.Signal),
		TimedOut: r.TimedOut, OOMKilled: r.OOMKilled, Cancelled: r.Cancelled,
		Stdout: core.Output(r.Stdout), Stderr: core.Output(r.Stderr),
		Durations: loadDurations(r.Durations), Total: r.Total,
		Files: each(r.Files, loadFile), Warnings: each(r.Warnings, fromText), Install: string(r.Install), AutoInstalled: each(r.AutoInstalled, fromText), Hint: string(r.Hint),
		Displays: each(r.Displays, loadDisplay),
		Session:  string(r.Session), Backend: string(r.Backend), Image: loadImage(r.Image),
	}
}

// storeDurations lists them by phase, so that equal records are stored alike.
func storeDurations(durations map[core.Phase]time.Duration) []storedDuration {
	var list []storedDuration
	for phase, took := range durations {
		list = append(list, storedDuration{Phase: text(phase), Took: took})
	}
	slices.SortFunc(list, func(a, b storedDuration) int { return cmp.Compare(a.Phase, b.Phase) })
	return list
}

func loadDurations(list []storedDuration) map[core.Phase]time.Duration {
	if len(list) == 0 {
		return nil
	}
	durations := make(map[core.Phase]time.Duration, len(list))
	for _, d := range list {
		durations[core.Phase(d.Phase)] = d.Took
	}
	return durations
}

func storeFile(a core.Artifact) storedFile {
	f := storedFile{
		Run: text(a.Run), Name: text(a.Name), Size: a.Size, MIMEType: text(a.MIMEType), SHA256: text(a.SHA256),
		URI: text(a.URI), Location: text(a.Location), Created: a.Created.UTC(),
	}
	if a.Preview != nil {
		f.Preview = &storedPreview{MIMEType: text(a.Preview.MIMEType), Data: a.Preview.Data, Shrunk: a.Preview.Shrunk}
	}
	return f
}

func loadFile(f storedFile) core.Artifact {
	a := core.Artifact{
		Run: string(f.Run), Name: string(f.Name), Size: f.Size, MIMEType: string(f.MIMEType), SHA256: string(f.SHA256),
		URI: string(f.URI), Location: string(f.Location), Created: f.Created,
	}
	if f.Preview != nil {
		a.Preview = &core.Preview{MIMEType: string(f.Preview.MIMEType), Data: f.Preview.Data, Shrunk: f.Preview.Shrunk}
	}
	return a
}

func storeDisplay(d core.Display) storedDisplay {
	return storedDisplay{MIMEType: text(d.MIMEType), Data: d.Data}
}

func loadDisplay(d storedDisplay) core.Display {
	return core.Display{MIMEType: string(d.MIMEType), Data: d.Data}
}

func storeImage(i core.Image) storedImage {
	return storedImage{Ref: text(i.Ref), Digest: text(i.Digest), Platform: text(i.Platform)}
}

func loadImage(i storedImage) core.Image {
	return core.Image{Ref: string(i.Ref), Digest: string(i.Digest), Platform: string(i.Platform)}
}
