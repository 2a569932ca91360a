// Package s3 keeps artifacts in a bucket of an S3-compatible store. Several servers may share one bucket and prefix.
//
// A file is two objects: its bytes, and a record that makes it exist. The record is written last and removed first,
// so that nothing half-written is ever served. It is not for sessions or records of runs: those are in a database.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/boxwright/boxwright/core"
)

const (
	// callLimit bounds one request that carries no file.
	callLimit = 30 * time.Second
	// tries is how often the library sends a request that fails for a reason that may pass.
	tries = 3
	// staleAfter is when bytes without a record, or an upload without end, are taken for the remains of a crash.
	staleAfter = 24 * time.Hour
)

// Options say where the bucket is.
type Options struct {
	Endpoint  string // https://host or http://host:port
	Region    string // "": the store's default
	Bucket    string // it must be there
	Prefix    string // of all keys; "" is none
	AccessKey string // "": what the environment and the machine's role say
	SecretKey string
	Transport http.RoundTripper // nil: the usual
	Log       *slog.Logger      // nil: nowhere
	Now       func() time.Time  // nil: time.Now; what a crash left goes by it
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Artifacts is an artifact.Store.
type Artifacts struct {
	client *minio.Client
	bucket string
	prefix string
	log    *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	open map[string]bool // run/name of this process's writers
}

// New makes a store. It asks nothing of the server yet: that may come later than we do.
func New(o Options) (*Artifacts, error) {
	o = o.withDefaults()
	at, err := url.Parse(o.Endpoint)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || strings.Trim(at.Path, "/") != "" || at.User != nil {
		return nil, core.Errorf(core.ErrInvalid, "the S3 endpoint is not the address of a server").
			WithHint("it looks like https://host or http://host:port, without a path; the bucket is a setting of its own")
	}
	keys := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	client, err := minio.New(at.Host, &minio.Options{
		Creds: keys, Secure: at.Scheme == "https", Region: o.Region, Transport: o.Transport, MaxRetries: tries,
	})
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the S3 store cannot be used: %w", err)
	}
	if o.Bucket == "" {
		return nil, core.Errorf(core.ErrInvalid, "the S3 store needs the name of a bucket")
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &Artifacts{client: client, bucket: o.Bucket, prefix: prefix, log: o.Log, now: o.Now, open: map[string]bool{}}, nil
}

// The keys of a run's objects. Names are too long and too strange to be keys.
func (s *Artifacts) runKey(run string) string { return s.prefix + "runs/" + run + "/" }

func (s *Artifacts) dataKey(run, name string) string { return s.runKey(run) + "data/" + hashOf(name) }

// recordKey tells age and size, so that a sweep need not read what it lists.
func (s *Artifacts) recordKey(run string, k known) string {
	return fmt.Sprintf("%s%s.%d.%d", s.runKey(run)+"known/", hashOf(k.Name), k.Created.UnixNano(), k.Size)
}

func (s *Artifacts) recordPrefix(run, name string) string {
	return s.runKey(run) + "known/" + hashOf(name) + "."
}

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// list calls each with every object below a prefix, until that fails.
func (s *Artifacts) list(ctx context.Context, prefix string, each func(minio.ObjectInfo) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		err := object.Err
		if err == nil {
			err = each(object)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Artifacts) remove(ctx context.Context, key string) error {
	return s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
}

// fault gives an error of the store its kind; nil stays nil. It never holds a credential: the library signs with
// them and does not print them.
func (s *Artifacts) fault(what string, err error) error {
	var already *core.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	switch answer := minio.ToErrorResponse(err); {
	case answer.Code == minio.NoSuchBucket:
		return core.Errorf(core.ErrUnavailable, "%s cannot be used, as the S3 store has no bucket %q", what, s.bucket).WithHint("make the bucket, or set another")
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden || answer.Code == "XAdminUserNotFound": // the last is versitygw's
		return core.Errorf(core.ErrUnavailable, "%s cannot be used, as the S3 store refuses the server's key", what).
			WithHint("let the key read, write, list and delete in bucket %q", s.bucket)
	case answer.StatusCode == http.StatusInsufficientStorage || answer.Code == "QuotaExceeded":
		return core.Errorf(core.ErrExhausted, "%s cannot be written, as the S3 store is full", what).WithHint("make room, or lower files.max_bytes")
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return core.Errorf(core.ErrUnavailable, "%s cannot be used, as the S3 store does not answer", what).WithHint("try again later")
	}
	return core.Errorf(core.ErrUnavailable, "%s cannot be used: the S3 store: %w", what, err).WithHint("try again later")
}

func isMissing(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NoSuchKey || code == minio.NoSuchUpload || code == "NotFound"
}
