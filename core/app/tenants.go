package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// Tenants are the use cases as clients have them: each call counts for its owner's quota, and what was done is kept
// in the audit log, if there is one. What is not named here is the Service's.
type Tenants struct {
	*Service
	audit identity.Audit // nil: nothing is kept
	code  core.AuditCode
	calls *calls
	scrub *core.Scrubber
}

// NewTenants puts quotas of calls and the audit log before a service. audit may be nil.
func NewTenants(s *Service, audit identity.Audit, code core.AuditCode) *Tenants {
	return &Tenants{
		Service: s, audit: audit, code: code, scrub: core.NewScrubber(),
		calls: &calls{now: s.ports.Now, all: map[string][]time.Time{}},
	}
}

// Usage tells how much of each quota the owner uses.
func (t *Tenants) Usage(ctx context.Context, owner string) ([]core.Meter, error) {
	list, err := t.Service.Usage(ctx, owner)
	if err != nil {
		return nil, err
	}
	return append(list, t.calls.meter(owner, t.quotaOf(ctx, owner).Calls)), nil
}

// enter lets a call in.
func (t *Tenants) enter(ctx context.Context, owner string) error {
	if p, known := core.PrincipalOf(ctx); known && p.ID != owner {
		return core.Errorf(core.ErrInternal, "a call of one principal was made for another")
	}
	return t.calls.take(owner, t.quotaOf(ctx, owner).Calls)
}

// counted does what a call asks for.
func counted[T any](ctx context.Context, t *Tenants, owner string, do func() (T, error)) (T, error) {
	if err := t.enter(ctx, owner); err != nil {
		var none T
		return none, err
	}
	return do()
}

// audited does what a call asks for, and keeps a record of that. learn, which may be nil, adds what is known afterwards.
func audited[T any](ctx context.Context, t *Tenants, owner string, r core.AuditRecord, do func() (T, error), learn func(*core.AuditRecord, T)) (T, error) {
	return counted(ctx, t, owner, func() (T, error) {
		done, err := do()
		if r.Outcome = "ok"; err != nil {
			r.Outcome = string(core.KindOf(err))
		} else if learn != nil {
			learn(&r, done)
		}
		t.keep(ctx, owner, r)
		return done, err
	})
}

const (
	// keepRecord bounds one write to the audit log.
	keepRecord = 5 * time.Second
	// maxTarget is how much of a name a record has, in bytes: clients choose names, also such as are refused.
	maxTarget = 512
)

// cut keeps so many bytes of a text, and no part of a character.
func cut(text string, most int64) string {
	if int64(len(text)) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// keep appends a record, without what looks like a secret. The caller is not made to fail for it: what was done is
// done.
func (t *Tenants) keep(ctx context.Context, owner string, r core.AuditRecord) {
	if t.audit == nil {
		return
	}
	p, _ := core.PrincipalOf(ctx)
	r.At, r.Principal, r.Credential = t.ports.Now(), owner, p.Credential
	r.Target = t.scrub.Scrub(cut(r.Target, maxTarget))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepRecord)
	defer cancel()
	if err := t.audit.Append(ctx, r); err != nil {
		t.ports.Log.Error("a record could not be appended to the audit log", "principal", r.Principal, "action", r.Action,
			"target", r.Target, "outcome", r.Outcome, "error", err)
	}
}

// codeOf is what the audit log has of a program.
func (t *Tenants) codeOf(r core.Request) string {
	text := r.Code
	if text == "" {
		text = r.Command
	}
	switch {
	case t.audit == nil || t.code == core.AuditCodeNone:
		return ""
	case t.code == core.AuditCodeFull:
		return t.scrub.Scrub(cut(text, t.settings.MaxCode))
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// RunOnce is Service.RunOnce.
func (t *Tenants) RunOnce(ctx context.Context, r core.Request, progress func(core.Progress)) (core.Record, error) {
	return audited(ctx, t, r.Tenant, core.AuditRecord{Action: "run", Code: t.codeOf(r)}, func() (core.Record, error) {
		return t.Service.RunOnce(ctx, r, progress)
	}, ran)
}

// ran adds what is known of a run.
func ran(r *core.AuditRecord, record core.Record) {
	r.Target, r.Where, r.Outcome = record.RunID, record.Backend, string(record.Status)
	if record.Session != "" {
		r.Target += " in " + record.Session
	}
}

// RunInSession is Service.RunInSession.
func (t *Tenants) RunInSession(ctx context.Context, idOrName string, r core.Request, progress func(core.Progress)) (core.Record, error) {
	about := core.AuditRecord{Action: "run", Target: "in " + idOrName, Code: t.codeOf(r)}
	return audited(ctx, t, r.Tenant, about, func() (core.Record, error) {
		return t.Service.RunInSession(ctx, idOrName, r, progress)
	}, ran)
}

// OpenSession is Service.OpenSession.
func (t *Tenants) OpenSession(ctx context.Context, r core.SessionRequest, progress func(core.Progress)) (core.Session, error) {
	return audited(ctx, t, r.Tenant, core.AuditRecord{Action: "session.open", Target: r.Name}, func() (core.Session, error) {
		return t.Service.OpenSession(ctx, r, progress)
	}, func(r *core.AuditRecord, made core.Session) { r.Target, r.Where = made.ID, made.Backend })
}

// none is the result of what has none.
type none struct{}

// StopSession is Service.StopSession.
func (t *Tenants) StopSession(ctx context.Context, owner, idOrName string) error {
	_, err := audited(ctx, t, owner, core.AuditRecord{Action: "session.stop", Target: idOrName}, func() (none, error) {
		return none{}, t.Service.StopSession(ctx, owner, idOrName)
	}, nil)
	return err
}

// UploadFile is Service.UploadFile.
func (t *Tenants) UploadFile(ctx context.Context, r core.FileRequest, content io.Reader) error {
	_, err := audited(ctx, t, r.Tenant, core.AuditRecord{Action: "file.upload", Target: r.Sandbox + "/" + r.Path}, func() (none, error) {
		return none{}, t.Service.UploadFile(ctx, r, content)
	}, nil)
	return err
}

// opened is a kept file that somebody reads.
type opened struct {
	io.ReadSeekCloser
	core.Artifact
}

// OpenFile is Service.OpenFile.
func (t *Tenants) OpenFile(ctx context.Context, owner, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	file, err := audited(ctx, t, owner, core.AuditRecord{Action: "file.open", Target: run + "/" + name}, func() (opened, error) {
		file, kept, err := t.Service.OpenFile(ctx, owner, run, name)
		return opened{file, kept}, err
	}, nil)
	return file.ReadSeekCloser, file.Artifact, err
}
