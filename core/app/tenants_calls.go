package app

import (
	"context"
	"time"

	"github.com/boxwright/boxwright/core"
)

// onFile is the record of a call on a file of a sandbox.
func onFile(action string, r core.FileRequest) core.AuditRecord {
	return core.AuditRecord{Action: action, Target: r.Sandbox + ":" + r.Path}
}

// inSandbox adds which sandbox it was.
func inSandbox(r core.FileRequest) func(*core.AuditRecord, string) {
	return func(record *core.AuditRecord, session string) { record.Target = session + ":" + r.Path }
}

// ListFiles is Service.ListFiles.
func (t *Tenants) ListFiles(ctx context.Context, r core.FileRequest, recursive bool) (core.FileListing, error) {
	return counted(ctx, t, r.Tenant, func() (core.FileListing, error) { return t.Service.ListFiles(ctx, r, recursive) })
}

// ReadFile is Service.ReadFile.
func (t *Tenants) ReadFile(ctx context.Context, r core.FileRequest, offset, limit int64, picture bool) (core.FileContent, error) {
	return audited(ctx, t, r.Tenant, onFile("file.read", r), func() (core.FileContent, error) {
		return t.Service.ReadFile(ctx, r, offset, limit, picture)
	}, func(record *core.AuditRecord, content core.FileContent) { inSandbox(r)(record, content.Session) })
}

// WriteFile is Service.WriteFile.
func (t *Tenants) WriteFile(ctx context.Context, r core.FileRequest, content []byte, progress func(core.Progress)) (session string, err error) {
	return audited(ctx, t, r.Tenant, onFile("file.write", r), func() (string, error) {
		return t.Service.WriteFile(ctx, r, content, progress)
	}, inSandbox(r))
}

// UploadTarget is Service.UploadTarget.
func (t *Tenants) UploadTarget(ctx context.Context, r core.FileRequest) (session string, err error) {
	return counted(ctx, t, r.Tenant, func() (string, error) { return t.Service.UploadTarget(ctx, r) })
}

// DeleteFile is Service.DeleteFile.
func (t *Tenants) DeleteFile(ctx context.Context, r core.FileRequest) (session string, err error) {
	return audited(ctx, t, r.Tenant, onFile("file.delete", r), func() (string, error) {
		return t.Service.DeleteFile(ctx, r)
	}, inSandbox(r))
}

// Sessions is Service.Sessions.
func (t *Tenants) Sessions(ctx context.Context, owner string) ([]core.SessionInfo, error) {
	return counted(ctx, t, owner, func() ([]core.SessionInfo, error) { return t.Service.Sessions(ctx, owner) })
}

// Inspect is Service.Inspect.
func (t *Tenants) Inspect(ctx context.Context, owner, idOrName string) ([]core.Variable, error) {
	return counted(ctx, t, owner, func() ([]core.Variable, error) { return t.Service.Inspect(ctx, owner, idOrName) })
}

// BeginInstall is Service.BeginInstall.
func (t *Tenants) BeginInstall(ctx context.Context, owner, idOrName string, packages []string, wait time.Duration) (core.PackageInstall, error) {
	return audited(ctx, t, owner, core.AuditRecord{Action: "session.install", Target: idOrName}, func() (core.PackageInstall, error) {
		return t.Service.BeginInstall(ctx, owner, idOrName, packages, wait)
	}, nil)
}

// InstallStatus is Service.InstallStatus.
func (t *Tenants) InstallStatus(ctx context.Context, owner, idOrName, name string) (core.PackageInstall, error) {
	return counted(ctx, t, owner, func() (core.PackageInstall, error) { return t.Service.InstallStatus(ctx, owner, idOrName, name) })
}

// SearchPackages is Service.SearchPackages.
func (t *Tenants) SearchPackages(ctx context.Context, owner, query string) ([]core.Package, error) {
	return counted(ctx, t, owner, func() ([]core.Package, error) { return t.Service.SearchPackages(ctx, owner, query) })
}

// GetRun is Service.GetRun.
func (t *Tenants) GetRun(ctx context.Context, owner, id string, wait time.Duration) (core.Record, error) {
	return counted(ctx, t, owner, func() (core.Record, error) { return t.Service.GetRun(ctx, owner, id, wait) })
}

// Runs is Service.Runs.
func (t *Tenants) Runs(ctx context.Context, owner string, before time.Time, limit int) ([]core.Run, error) {
	return counted(ctx, t, owner, func() ([]core.Run, error) { return t.Service.Runs(ctx, owner, before, limit) })
}

// ReadOutput is Service.ReadOutput.
func (t *Tenants) ReadOutput(ctx context.Context, owner, id string, stream core.Stream, offset, limit int64) (core.OutputPiece, error) {
	return counted(ctx, t, owner, func() (core.OutputPiece, error) {
		return t.Service.ReadOutput(ctx, owner, id, stream, offset, limit)
	})
}

// WriteStdin is Service.WriteStdin.
func (t *Tenants) WriteStdin(ctx context.Context, owner, id string, data []byte, end bool) (taken int64, err error) {
	return audited(ctx, t, owner, core.AuditRecord{Action: "run.input", Target: id}, func() (int64, error) {
		return t.Service.WriteStdin(ctx, owner, id, data, end)
	}, nil)
}

// CancelRun is Service.CancelRun.
func (t *Tenants) CancelRun(ctx context.Context, owner, id string) (core.Record, error) {
	return audited(ctx, t, owner, core.AuditRecord{Action: "run.cancel", Target: id}, func() (core.Record, error) {
		return t.Service.CancelRun(ctx, owner, id)
	}, nil)
}
