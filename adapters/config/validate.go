package config

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Validate checks what one value alone cannot tell. Its error joins one core.ErrInvalid
// sentence for each fault.
func (c Config) Validate() error {
	v := &validator{}
	v.backend(c)
	v.backends(c.Backends)
	v.routes(c)
	v.languages(c)
	v.http(c)
	v.check(filepath.IsAbs(c.Storage.Dir), "storage.dir is %q, but must be an absolute path", c.Storage.Dir)
	v.bucket(c.Storage)
	v.database(c.Storage)
	v.files(c.Files)
	v.images(c.Images)
	v.limits(c.Limits)
	v.runs(c.Runs)
	v.quotas(c)
	v.auth(c.Auth)
	v.check(c.Audit.Keep >= 0, "audit.keep is %s, but must not be below 0", c.Audit.Keep)
	v.pool(c.Pool)
	v.sessions(c.Sessions)
	v.dependencies(c.Dependencies)
	return errors.Join(v.faults...)
}

type validator struct{ faults []error }

// check notes a fault unless ok.
func (v *validator) check(ok bool, format string, args ...any) {
	if !ok {
		v.faults = append(v.faults, core.Errorf(core.ErrInvalid, format, args...))
	}
}

// under puts the setting's name before a fault found elsewhere.
func (v *validator) under(name string, err error) {
	if err == nil {
		return
	}
	fault := core.Errorf(core.KindOf(err), "%s: %s", name, core.MessageOf(err))
	if hint := core.HintOf(err); hint != "" {
		fault = fault.WithHint("%s", hint)
	}
	v.faults = append(v.faults, fault)
}

// positive checks sizes that must not be zero.
func (v *validator) positive(name string, value Size) {
	v.check(value > 0, "%s is %s, but must be more than 0", name, value)
}

// order checks that one size is not above another.
func (v *validator) order(lowName string, low Size, highName string, high Size) {
	v.check(low <= high, "%s is %s, but must not be more than %s, which is %s", lowName, low, highName, high)
}

func (v *validator) bucket(s Storage) {
	if s.Artifacts == "s3" {
		v.check(s.S3.Endpoint != "", "storage.s3.endpoint is empty, but storage.artifacts is s3, which needs the store's address")
		v.check(s.S3.Bucket != "", "storage.s3.bucket is empty, but storage.artifacts is s3, which needs a bucket")
	}
}

func (v *validator) database(s Storage) {
	v.check(s.Database != DatabasePostgres || !s.Postgres.URL.IsZero(),
		"storage.database is postgres, but neither storage.postgres.url nor storage.postgres.url_file says where that is")
}

func (v *validator) files(f Files) {
	v.check(f.Dir == NoFiles || filepath.IsAbs(f.Dir), "files.dir is %q, but must be an absolute path or %s", f.Dir, NoFiles)
	for _, dir := range f.UploadFrom {
		v.check(filepath.IsAbs(dir), "files.upload_from has %q, but must hold absolute paths", dir)
	}
	v.check(f.MaxAge >= 0, "files.max_age is %s, but must not be below 0", f.MaxAge)
	v.check(f.MaxBytes >= 0, "files.max_bytes is %s, but must not be below 0", f.MaxBytes)
	v.positive("files.max_file", f.MaxFile)
	v.order("files.max_file", f.MaxFile, "files.max_per_run", f.MaxPerRun)
	if f.MaxBytes > 0 {
		v.order("files.max_per_run", f.MaxPerRun, "files.max_bytes", f.MaxBytes)
	}
	v.check(f.InlineImage >= 0, "files.inline_image is %s, but must not be below 0", f.InlineImage)
}

func (v *validator) images(i Images) {
	if i.Default != "" {
		_, err := core.NormalizeImage(i.Default)
		v.under("images.default", err)
	}
	v.under("images.allow", i.Policy().Validate())
}

func (v *validator) limits(l Limits) {
	for _, limit := range []struct {
		name string
		none bool
	}{{"limits.memory", l.Memory == 0}, {"limits.cpus", l.CPUs == 0}, {"limits.pids", l.PIDs == 0}} {
		v.check(!limit.none, "%s is 0, but a box without this limit is not allowed", limit.name)
	}
	v.under("limits", l.Core().Validate())
	v.check(l.MaxBoxes >= 0, "limits.max_boxes is %d, but must not be below 0", l.MaxBoxes)
	v.room("limits.max_memory", l.MaxMemory, l)
}

// room checks that one box at least fits into a bound of all boxes' memory; 0 is none.
func (v *validator) room(name string, bound Size, l Limits) {
	v.check(bound == 0 || bound >= Size(l.Core().MemoryBytes),
		"%s is %s, but must not be less than limits.memory, which is %s: no box would fit", name, bound, Size(l.Core().MemoryBytes))
}

func (v *validator) pool(p Pool) {
	v.check(p.Size >= 0, "pool.size is %d, but must not be below 0", p.Size)
	v.check(p.Size <= p.Max, "pool.size is %d, but must not be more than pool.max, which is %d", p.Size, p.Max)
	v.check(p.Installers >= 0, "pool.installers is %d, but must not be below 0", p.Installers)
	v.check(p.MaxMemory >= 0, "pool.max_memory is %s, but must not be below 0", p.MaxMemory)
	v.check(p.IdleTimeout >= seconds(10), "pool.idle_timeout is %s, but must be at least 10s", p.IdleTimeout)
	v.check(p.MaxAge >= seconds(60), "pool.max_age is %s, but must be at least 1m", p.MaxAge)
	v.under("pool.preload", core.CheckModules(p.Preload))
}

func (v *validator) runs(r Runs) {
	v.check(r.Timeout > 0, "runs.timeout is %s, but must be more than 0", r.Timeout)
	v.check(r.Timeout <= r.MaxTimeout, "runs.timeout is %s, but must not be more than runs.max_timeout, which is %s", r.Timeout, r.MaxTimeout)
	v.positive("runs.max_code", r.MaxCode)
	v.check(r.MaxStdin >= 0, "runs.max_stdin is %s, but must not be below 0", r.MaxStdin)
	v.check(r.MaxFiles >= 0, "runs.max_files is %d, but must not be below 0", r.MaxFiles)
	v.check(r.MaxUpload >= 0, "runs.max_upload is %s, but must not be below 0", r.MaxUpload)
	v.positive("runs.output_head", r.OutputHead)
	v.check(r.OutputTail >= 0, "runs.output_tail is %s, but must not be below 0", r.OutputTail)
	v.check(r.OutputKeep >= 0, "runs.output_keep is %s, but must not be below 0", r.OutputKeep)
	v.check(r.SyncLimit >= seconds(1), "runs.sync_limit is %s, but must be at least 1s", r.SyncLimit)
	v.check(r.Keep >= 0, "runs.keep is %s, but must not be below 0", r.Keep)
	v.check(r.KeepSize >= 0, "runs.keep_size is %s, but must not be below 0", r.KeepSize)
	v.check(r.MaxConcurrent > 0, "runs.max_concurrent is %d, but must be more than 0", r.MaxConcurrent)
	v.check(r.MaxQueued >= 0, "runs.max_queued is %d, but must not be below 0", r.MaxQueued)
	v.check(r.MaxWait >= 0, "runs.max_wait is %s, but must not be below 0", r.MaxWait)
}

func (v *validator) sessions(s Sessions) {
	v.check(s.IdleTimeout > 0, "sessions.idle_timeout is %s, but must be more than 0", s.IdleTimeout)
	v.check(s.IdleTimeout <= s.MaxIdleTimeout, "sessions.idle_timeout is %s, but must not be more than sessions.max_idle_timeout, which is %s", s.IdleTimeout, s.MaxIdleTimeout)
	v.check(s.MaxIdleTimeout <= s.MaxAge, "sessions.max_idle_timeout is %s, but must not be more than sessions.max_age, which is %s", s.MaxIdleTimeout, s.MaxAge)
	v.check(s.MaxQueued >= 0, "sessions.max_queued is %d, but must not be below 0", s.MaxQueued)
}

func (v *validator) dependencies(d Dependencies) {
	v.url("dependencies.index_url", d.IndexURL, indexSchemes()...)
	for _, extra := range d.ExtraIndexURLs {
		v.url("dependencies.extra_index_urls", extra, indexSchemes()...)
	}
	v.url("dependencies.http_proxy", d.HTTPProxy, proxySchemes()...)
	v.url("dependencies.https_proxy", d.HTTPSProxy, proxySchemes()...)
	if d.CABundle != "" {
		info, err := os.Stat(d.CABundle)
		v.check(err == nil && info.Mode().IsRegular(), "dependencies.ca_bundle is %q, which is not a file that can be read", d.CABundle)
	}
	if d.Wheels != "" {
		info, err := os.Stat(d.Wheels)
		v.check(err == nil && info.IsDir(), "dependencies.wheels is %q, which is not a folder that can be read", d.Wheels)
	}
	v.check(d.MaxCache >= 0, "dependencies.max_cache is %s, but must not be below 0", d.MaxCache)
	v.positive("dependencies.max_environment", d.MaxEnvironment)
	v.check(d.Timeout >= Duration(time.Second), "dependencies.timeout is %s, but must be at least 1s", d.Timeout)
	v.check(d.MaxAge >= 0, "dependencies.max_age is %s, but must not be below 0", d.MaxAge)
	v.keep(d.Keep)
	v.warm(d)
}

// url checks a URL without ever printing it: it may hold credentials.
func (v *validator) url(name string, secret Secret, schemes ...string) {
	v.check(secret.IsZero() || isURL(secret.Reveal(), schemes), "%s must be a URL that begins with %s://", name, strings.Join(schemes, ":// or "))
}

func isURL(text string, schemes []string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}

func indexSchemes() []string { return []string{"http", "https"} }
func proxySchemes() []string { return []string{"http", "https", "socks5", "socks5h"} }
