package s3

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/boxwright/boxwright/core"
)

// kept is what a sweep learns of a run by listing.
type kept struct {
	run     string
	newest  time.Time
	size    int64
	records map[string]bool             // by hash of the name
	data    map[string]minio.ObjectInfo // by hash of the name
}

// Remove implements artifact.Store.
func (s *Artifacts) Remove(ctx context.Context, run string) error {
	if core.CheckRunID(run) != nil {
		return nil
	}
	for _, part := range []string{"known/", "data/"} {
		err := s.list(ctx, s.runKey(run)+part, func(o minio.ObjectInfo) error { return s.remove(ctx, o.Key) })
		if err != nil {
			return s.fault("the files of run "+run, err)
		}
	}
	return nil
}

// Sweep implements artifact.Store.
func (s *Artifacts) Sweep(ctx context.Context, before time.Time, maxBytes int64) (int, error) {
	runs, err := s.survey(ctx)
	if err != nil {
		return 0, s.fault("the files of old runs", err)
	}
	removed := 0
	for _, run := range planSweep(runs, before, maxBytes) {
		if err := s.Remove(ctx, run); err != nil {
			return removed, err
		}
		removed++
	}
	for _, k := range runs {
		s.removeRemains(ctx, k)
	}
	if err := s.removeUploads(ctx); err != nil {
		s.log.Warn("what unfinished uploads left could not be removed", "error", s.fault("the bucket", err))
	}
	return removed, nil
}

// survey lists all runs.
func (s *Artifacts) survey(ctx context.Context) (map[string]*kept, error) {
	runs := map[string]*kept{}
	err := s.list(ctx, s.prefix+"runs/", func(o minio.ObjectInfo) error {
		parts := strings.Split(strings.TrimPrefix(o.Key, s.prefix+"runs/"), "/")
		if len(parts) != 3 || core.CheckRunID(parts[0]) != nil {
			return nil // it is not ours
		}
		k := runs[parts[0]]
		if k == nil {
			k = &kept{run: parts[0], records: map[string]bool{}, data: map[string]minio.ObjectInfo{}}
			runs[parts[0]] = k
		}
		hash, _, _ := strings.Cut(parts[2], ".")
		if parts[1] == "data" {
			k.data[hash] = o
		} else if created, size, ok := toldBy(o.Key); ok {
			k.records[hash], k.size = true, k.size+size
			if created.After(k.newest) {
				k.newest = created
			}
		}
		return nil
	})
	return runs, err
}

// planSweep chooses what goes: what is too old, then the oldest of the rest until it fits.
func planSweep(runs map[string]*kept, before time.Time, maxBytes int64) (gone []string) {
	var rest []*kept
	var size int64
	for _, k := range runs {
		switch {
		case len(k.records) == 0: // it is being written
		case k.newest.Before(before):
			gone = append(gone, k.run)
		default:
			rest, size = append(rest, k), size+k.size
		}
	}
	slices.SortFunc(rest, func(a, b *kept) int { return cmp.Or(a.newest.Compare(b.newest), strings.Compare(a.run, b.run)) })
	for _, k := range rest {
		if maxBytes <= 0 || size <= maxBytes {
			break
		}
		gone, size = append(gone, k.run), size-k.size
	}
	return gone
}

// removeRemains removes bytes that got no record in all this time: their server was killed, or the store was away
// when they were given up.
func (s *Artifacts) removeRemains(ctx context.Context, k *kept) {
	for hash, object := range k.data {
		if k.records[hash] || s.now().Sub(object.LastModified) < staleAfter {
			continue
		}
		if err := s.remove(ctx, object.Key); err != nil {
			s.log.Warn("what a file left could not be removed", "run", k.run, "error", err)
		}
	}
}

// removeUploads ends uploads in parts that nobody ends any more: listings of objects do not have them, but they take
// room.
func (s *Artifacts) removeUploads(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var failed error
	for upload := range s.client.ListIncompleteUploads(ctx, s.bucket, s.prefix+"runs/", true) { // to its end: it waits for who reads
		err := upload.Err
		if err == nil && s.now().Sub(upload.Initiated) >= staleAfter {
			err = minio.Core{Client: s.client}.AbortMultipartUpload(ctx, s.bucket, upload.Key, upload.UploadID)
		}
		if err != nil && !isMissing(err) {
			failed = err
		}
	}
	return failed
}
