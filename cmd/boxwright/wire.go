package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/catalog"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/guest"
	"github.com/boxwright/boxwright/adapters/installer"
	"github.com/boxwright/boxwright/adapters/storage/disk"
	"github.com/boxwright/boxwright/adapters/storage/memory"
	"github.com/boxwright/boxwright/adapters/storage/s3"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/dependency"
	"github.com/boxwright/boxwright/ports/identity"
	"github.com/boxwright/boxwright/ports/session"
)

// system is the wired program: adapters behind ports, the use cases before them.
type system struct {
	service   *app.Service
	tenants   *app.Tenants        // the service, as clients have it
	auth      *auth.Authenticator // nil where nobody is asked who they are
	identity  identity.Store
	artifacts artifact.Store
	sessions  session.Store
	runs      session.Runs
	index     dependency.Index
	database  io.Closer
	backends  *app.Backends
	instance  *disk.Instance
	log       *slog.Logger
	links     fileLinks // opened before HTTP is served
}

// wire builds the system. It starts no plugin: each starts when it is first needed.
func wire(c config.Config, log *slog.Logger) (*system, error) {
	instance, err := disk.OpenInstance(c.Storage.Dir)
	if err != nil {
		return nil, err
	}
	s := &system{instance: instance, log: log}
	if err := s.openStores(c, instance.ID); err != nil {
		return nil, errors.Join(err, instance.Close())
	}
	if s.backends, err = newBackends(c, instance, log); err != nil {
		return nil, errors.Join(err, s.database.Close(), instance.Close())
	}
	if s.auth, err = newAuthenticator(c.Auth, s.identity, log); err != nil {
		return nil, errors.Join(err, s.database.Close(), instance.Close())
	}
	packages := installerOptions(c.Dependencies, log)
	s.service = app.New(app.Ports{
		Backends:  s.backends,
		Guests:    &guest.Connector{},
		Artifacts: s.artifacts,
		Installer: installer.New(packages),
		Catalog:   newCatalog(packages),
		Index:     s.index,
		Sessions:  s.sessions,
		Runs:      s.runs,
		Usage:     s.identity,
		Instance:  instance.ID,
		Forgetful: forgetsEnvironments(c.Storage),
		Server:    instance.Server,
		Alive:     instance.Alive,
		Now:       time.Now,
		NewID:     func() string { return strings.ToLower(rand.Text()) },
		Log:       log,
	}, appSettings(c))
	s.tenants = newTenants(s.service, c, s.identity)
	return s, nil
}

func (s *system) openStores(c config.Config, installation string) (err error) {
	switch room := c.Files.Room(c.Storage); {
	case c.Files.InMemory(c.Storage):
		s.artifacts = memory.NewArtifacts(room)
	case c.Storage.Artifacts == "s3":
		s.artifacts, err = s3.New(s3Options(c.Storage.S3, s.log))
	default:
		s.artifacts, err = disk.NewArtifacts(c.Files.Dir, disk.ArtifactOptions{Log: s.log, MaxBytes: room})
	}
	if err != nil {
		return err
	}
	return s.openDatabase(c.Storage, c.Auth, installation)
}

func s3Options(c config.S3, log *slog.Logger) s3.Options {
	return s3.Options{
		Endpoint: c.Endpoint, Region: c.Region, Bucket: c.Bucket, Prefix: c.Prefix,
		AccessKey: c.AccessKey, SecretKey: c.SecretKey.Reveal(), Log: log,
	}
}

// openDatabase opens what is kept in the database, which is not made if that is nothing.
func (s *system) openDatabase(c config.Storage, who config.Auth, installation string) error {
	s.sessions, s.runs, s.index, s.database = memory.NewSessions(), memory.NewRuns(), memory.NewEnvironments(), io.NopCloser(nil)
	s.identity = memory.NewIdentity()
	if c.Database == config.DatabaseMemory || c.Sessions == inMemory && c.Environments == inMemory && who.Mode == config.AuthNone {
		return nil
	}
	database, err := openDatabase(c, installation)
	if err != nil {
		return err
	}
	s.database, s.identity = database, database.Identity()
	if c.Sessions != inMemory {
		s.sessions, s.runs = database.Sessions(), database.Runs()
	}
	if c.Environments != inMemory {
		s.index = database.Environments()
	}
	return nil
}

// close ends the service first: it still needs the plugins to remove its boxes, and the stores to keep what
// became of its runs.
func (s *system) close(ctx context.Context) error {
	if s.auth != nil {
		s.auth.Flush(ctx)
	}
	return errors.Join(s.service.Close(ctx), s.backends.Close(ctx), s.database.Close(), s.instance.Close())
}

// keepFiles removes old files of runs, and old records of the audit log, now and every few minutes.
func (s *system) keepFiles(ctx context.Context, c config.Config) {
	for {
		s.keepRecords(ctx, c.Audit.Keep.Std())
		before := time.Time{}
		if age := c.Files.MaxAge.Std(); age > 0 {
			before = time.Now().Add(-age)
		}
		if n, err := s.artifacts.Sweep(ctx, before, c.Files.Room(c.Storage)); err != nil {
			s.log.Warn("old files could not be removed", "error", err)
		} else if n > 0 {
			s.log.Info("removed the files of old runs", "runs", n)
			if err := s.service.ReleaseFiles(ctx); err != nil {
				s.log.Warn("whose the removed files were could not be forgotten", "error", err)
			}
		}
		select {
		case <-time.After(5 * time.Minute):
		case <-ctx.Done():
			return
		}
	}
}

// keepRecords forgets records of the audit log that were kept long enough; 0 is for ever.
func (s *system) keepRecords(ctx context.Context, age time.Duration) {
	if age == 0 {
		return
	}
	if n, err := s.identity.SweepRecords(ctx, time.Now().Add(-age)); err != nil {
		s.log.Warn("old records of the audit log could not be removed", "error", err)
	} else if n > 0 {
		s.log.Info("removed old records of the audit log", "records", n)
	}
}

func installerOptions(c config.Dependencies, log *slog.Logger) installer.Options {
	options := installer.Options{
		IndexURL:          c.IndexURL.Reveal(),
		CABundle:          c.CABundle,
		HTTPProxy:         c.HTTPProxy.Reveal(),
		HTTPSProxy:        c.HTTPSProxy.Reveal(),
		NoProxy:           c.NoProxy,
		Wheels:            c.Wheels,
		AllowSourceBuilds: c.AllowSourceBuilds,
		PrivateCache:      !c.Cache,
		MaxCache:          int64(c.MaxCache),
		MaxSize:           int64(c.MaxEnvironment),
		Timeout:           c.Timeout.Std(),
		Logger:            log,
	}
	for _, url := range c.ExtraIndexURLs {
		options.ExtraIndexURLs = append(options.ExtraIndexURLs, url.Reveal())
	}
	return options
}

// newCatalog asks the indexes that the installer installs from.
func newCatalog(o installer.Options) *catalog.Catalog {
	return catalog.New(catalog.Options{
		Indexes: o.Indexes(), Wheels: o.Wheels, CABundle: o.CABundle,
		HTTPProxy: o.HTTPProxy, HTTPSProxy: o.HTTPSProxy, NoProxy: o.NoProxy,
	})
}

func appSettings(c config.Config) app.Settings {
	return app.Settings{
		Routes:       c.CoreRoutes(),
		Choices:      c.Choices(),
		Images:       c.Images.Policy(),
		DefaultImage: c.Images.Default,
		Pull:         c.Images.PullPolicy(),
		Limits:       c.Limits.Core(),
		Unenforced:   c.Limits.Policy(),
		Interpreters: c.Interpreters(),
		Sessions: app.SessionSettings{
			IdleTimeout: c.Sessions.IdleTimeout.Std(), MaxIdleTimeout: c.Sessions.MaxIdleTimeout.Std(),
			MaxAge: c.Sessions.MaxAge.Std(), MaxQueued: int(c.Sessions.MaxQueued), KeepOnExit: c.Sessions.KeepOnExit,
		},
		SyncLimit:      c.Runs.SyncLimit.Std(),
		KeepRuns:       c.Runs.Keep.Std(),
		KeepRunBytes:   int64(c.Runs.KeepSize),
		Timeout:        c.Runs.Timeout.Std(),
		MaxTimeout:     c.Runs.MaxTimeout.Std(),
		MaxCode:        int64(c.Runs.MaxCode),
		MaxStdin:       int64(c.Runs.MaxStdin),
		MaxInputs:      int(c.Runs.MaxFiles),
		MaxInputBytes:  int64(c.Runs.MaxUpload),
		MaxConcurrent:  int(c.Runs.MaxConcurrent),
		MaxQueued:      int(c.Runs.MaxQueued),
		MaxWait:        c.Runs.MaxWait.Std(),
		MaxBoxes:       c.Limits.MaxBoxes,
		MaxMemory:      int64(c.Limits.MaxMemory),
		Quota:          coreQuota(c.Quotas),
		Quotas:         quotasOf(c.Quotas),
		QuotaWindow:    c.Quotas.CPUWindow.Std(),
		KeepFiles:      c.Files.MaxAge.Std(),
		Pool:           poolSettings(c.Pool),
		Output:         c.Runs.Output(),
		MaxFile:        int64(c.Files.MaxFile),
		MaxFiles:       int64(c.Files.MaxPerRun),
		InlineImage:    int64(c.Files.InlineImage),
		Dependencies:   c.Dependencies.Enabled,
		AutoInstall:    c.Dependencies.AutoInstall,
		InstallLimit:   c.Dependencies.Timeout.Std(),
		InstallSize:    installLimits(c.Limits),
		EnvironmentAge: c.Dependencies.MaxAge.Std(),
		Requirements:   c.Dependencies.Policy(),
		MaxEnvironment: int64(c.Dependencies.MaxEnvironment),
		Keep:           app.Keep{MaxSize: int64(c.Dependencies.Keep.MaxSize), MaxAge: c.Dependencies.Keep.MaxAge.Std()},
		Tenant:         localTenant,
	}
}

// poolSettings: a pool that is off is one in which no box may wait.
func poolSettings(p config.Pool) app.Pool {
	if !p.Enabled {
		return app.Pool{}
	}
	return app.Pool{
		Size: int(p.Size), Max: int(p.Max), MaxMemory: int64(p.MaxMemory),
		Installers: int(p.Installers), IdleTimeout: p.IdleTimeout.Std(), MaxAge: p.MaxAge.Std(), Preload: p.Preload,
	}
}

// installLimits bound the boxes that packages are installed in: as any other box, but their workspace
// holds no files of runs, so that its size is the default.
func installLimits(l config.Limits) core.Limits {
	l.Disk = 0
	return l.Core()
}
