package s3

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/boxwright/boxwright/core"
)

// maxRecord bounds a record, in bytes.
const maxRecord = 1 << 20

// readers is how many records are read at the same time.
const readers = 8

// known is what the store remembers of a file.
type known struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	MIMEType string    `json:"mime_type"`
	SHA256   string    `json:"sha256"`
	Created  time.Time `json:"created"`
}

func (k known) artifact(run string) core.Artifact {
	return core.Artifact{
		Run: run, Name: k.Name, Size: k.Size, MIMEType: k.MIMEType, SHA256: k.SHA256, Created: k.Created,
		URI: core.ArtifactURI(run, k.Name),
	}
}

// Open implements artifact.Store. Ranges of the file are fetched as they are read.
func (s *Artifacts) Open(ctx context.Context, run, name string) (io.ReadSeekCloser, core.Artifact, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, core.Artifact{}, err
	}
	k, err := s.find(ctx, run, name)
	if err != nil {
		return nil, core.Artifact{}, s.unknown(run, name, err)
	}
	object, err := s.client.GetObject(ctx, s.bucket, s.dataKey(run, name), minio.GetObjectOptions{})
	if err != nil {
		return nil, core.Artifact{}, s.unknown(run, name, err)
	}
	if info, err := object.Stat(); err != nil || info.Size != k.Size {
		_ = object.Close()
		return nil, core.Artifact{}, s.unknown(run, name, err)
	}
	return object, k.artifact(run), nil
}

// find reads the record of a file; core.ErrNotFound if there is none.
func (s *Artifacts) find(ctx context.Context, run, name string) (known, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var key string
	err := s.list(ctx, s.recordPrefix(run, name), func(o minio.ObjectInfo) error {
		key = o.Key
		return nil
	})
	if err != nil {
		return known{}, err
	}
	if key == "" {
		return known{}, core.ErrNotFound
	}
	k, err := s.read(ctx, key)
	if err == nil && k.Name != name {
		err = core.ErrNotFound
	}
	return k, err
}

func (s *Artifacts) read(ctx context.Context, key string) (k known, err error) {
	object, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return known{}, err
	}
	defer object.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(object, maxRecord))
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// List implements artifact.Store.
func (s *Artifacts) List(ctx context.Context, run string) ([]core.Artifact, error) {
	if core.CheckRunID(run) != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var keys []string
	err := s.list(ctx, s.runKey(run)+"known/", func(o minio.ObjectInfo) error {
		keys = append(keys, o.Key)
		return nil
	})
	if err != nil {
		return nil, s.fault("the files of run "+run, err)
	}
	files := make([]core.Artifact, len(keys))
	errs := make([]error, len(keys))
	gate := make(chan struct{}, readers)
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			k, err := s.read(ctx, key)
			files[i], errs[i] = k.artifact(run), err
		})
	}
	all.Wait()
	return s.listed(run, files, errs)
}

// listed leaves out what was removed meanwhile, and what is not a record of a file.
func (s *Artifacts) listed(run string, files []core.Artifact, errs []error) ([]core.Artifact, error) {
	var list []core.Artifact
	for i, file := range files {
		var syntax *json.SyntaxError
		switch err := errs[i]; {
		case err == nil && core.CheckArtifact(run, file.Name) == nil:
			list = append(list, file)
		case err == nil || errors.As(err, &syntax):
			s.log.Warn("a record of a file cannot be read", "run", run)
		case !isMissing(err):
			return nil, s.fault("the files of run "+run, err)
		}
	}
	slices.SortFunc(list, func(a, b core.Artifact) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// unknown is for a file that is not there, unless err is about something else.
func (s *Artifacts) unknown(run, name string, err error) error {
	if err == nil || isMissing(err) || errors.Is(err, core.ErrNotFound) {
		return core.Errorf(core.ErrNotFound, "run %q has no file %q", run, name).
			WithHint("files are removed when they are old or when room is needed")
	}
	return s.fault("a file of run "+run, err)
}

// toldBy reads age and size of a file from the key of its record.
func toldBy(key string) (created time.Time, size int64, ok bool) {
	parts := strings.Split(key[strings.LastIndexByte(key, '/')+1:], ".")
	if len(parts) != 3 {
		return created, 0, false
	}
	nanos, err := strconv.ParseInt(parts[1], 10, 64)
	size, sizeErr := strconv.ParseInt(parts[2], 10, 64)
	return time.Unix(0, nanos), size, err == nil && sizeErr == nil && size >= 0
}
