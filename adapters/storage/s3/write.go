package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
)

const (
	// smallFile is what is held until its end and sent in one request, in bytes.
	smallFile = 1 << 20
	// partSize is held of a bigger file, in bytes. A store takes 10,000 parts.
	partSize = 8 << 20
	// headSize is how many bytes tell a file's type.
	headSize = 512
)

// Create implements artifact.Store.
func (s *Artifacts) Create(ctx context.Context, run, name string) (artifact.Writer, error) {
	if err := core.CheckArtifact(run, name); err != nil {
		return nil, err
	}
	if !s.claim(run, name) {
		return nil, exists(run, name)
	}
	_, err := s.find(ctx, run, name)
	if errors.Is(err, core.ErrNotFound) {
		ctx, cancel := context.WithCancel(ctx)
		return &writer{store: s, ctx: ctx, cancel: cancel, run: run, name: name, sum: sha256.New()}, nil
	}
	s.release(run, name)
	if err == nil {
		return nil, exists(run, name)
	}
	return nil, s.fault("a file of run "+run, err)
}

func (s *Artifacts) claim(run, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[run+"/"+name] {
		return false
	}
	s.open[run+"/"+name] = true
	return true
}

func (s *Artifacts) release(run, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, run+"/"+name)
}

func exists(run, name string) error {
	return core.Errorf(core.ErrInvalid, "run %s has a file %q already", run, name)
}

// writer is used by one goroutine.
type writer struct {
	store     *Artifacts
	ctx       context.Context //nolint:containedctx // Create's: an io.Writer gets none
	cancel    context.CancelFunc
	run, name string

	small bytes.Buffer   // the file, as long as it is small
	pipe  *io.PipeWriter // to the request that sends it, when it no longer is
	sent  chan error     // how that went
	sum   hash.Hash
	size  int64
	head  []byte // the first bytes, to find the type
	ended bool
}

func (w *writer) Write(p []byte) (int, error) {
	if w.ended {
		return 0, core.Errorf(core.ErrInternal, "write to file %q after its end", w.name)
	}
	w.size += int64(len(p))
	w.sum.Write(p)
	if room := headSize - len(w.head); room > 0 {
		w.head = append(w.head, p[:min(len(p), room)]...)
	}
	if w.pipe == nil && w.small.Len()+len(p) <= smallFile {
		return w.small.Write(p)
	}
	if w.pipe == nil {
		w.begin()
		if _, err := w.pipe.Write(w.small.Bytes()); err != nil {
			return 0, w.store.fault("a file of run "+w.run, err)
		}
		w.small = bytes.Buffer{}
	}
	n, err := w.pipe.Write(p)
	return n, w.store.fault("a file of run "+w.run, err)
}

// begin sends the file while it is written.
func (w *writer) begin() {
	reader, pipe := io.Pipe()
	w.pipe, w.sent = pipe, make(chan error, 1)
	go func() {
		err := w.put(reader, -1)
		_ = reader.CloseWithError(err)
		w.sent <- err
	}()
}

// put sends the bytes: all of them, or nothing that can be read.
func (w *writer) put(from io.Reader, size int64) error {
	_, err := w.store.client.PutObject(w.ctx, w.store.bucket, w.store.dataKey(w.run, w.name), from, size,
		minio.PutObjectOptions{PartSize: partSize, ContentType: "application/octet-stream"})
	return err
}

// Commit sends what is left of the bytes, then the record: that is the moment.
func (w *writer) Commit(mimeType string) (core.Artifact, error) {
	if w.ended {
		return core.Artifact{}, core.Errorf(core.ErrInternal, "commit of file %q after its end", w.name)
	}
	defer w.Abort()
	if mimeType == "" {
		mimeType = core.MIMETypeOf(w.name, w.head)
	}
	if err := w.finish(); err != nil {
		return core.Artifact{}, w.store.fault("a file of run "+w.run, err)
	}
	k := known{Name: w.name, Size: w.size, MIMEType: mimeType, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Created: time.Now().UTC()}
	text, err := json.Marshal(k)
	if err != nil {
		return core.Artifact{}, core.Errorf(core.ErrInternal, "the record of file %q: %w", w.name, err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, callLimit)
	defer cancel()
	_, err = w.store.client.PutObject(ctx, w.store.bucket, w.store.recordKey(w.run, k), bytes.NewReader(text), int64(len(text)),
		minio.PutObjectOptions{ContentType: "application/json"})
	if err != nil {
		return core.Artifact{}, w.store.fault("a file of run "+w.run, err)
	}
	w.end()
	return k.artifact(w.run), nil
}

func (w *writer) finish() error {
	if w.pipe == nil {
		return w.put(bytes.NewReader(w.small.Bytes()), w.size) // from which it can be sent once more
	}
	_ = w.pipe.Close()
	err := <-w.sent
	w.sent <- err // for Abort
	return err
}

// Abort leaves nothing. What it cannot remove, because the store is away, a sweep removes.
func (w *writer) Abort() {
	if w.ended {
		return
	}
	w.end()
	if w.pipe != nil {
		_ = w.pipe.CloseWithError(context.Canceled)
		<-w.sent //nolint:errcheck // it is gone whatever came of it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), callLimit)
	defer cancel()
	if err := w.store.remove(ctx, w.store.dataKey(w.run, w.name)); err != nil && !isMissing(err) {
		w.store.log.Warn("a file that was not wanted could not be removed; a sweep will", "run", w.run, "error", err)
	}
}

func (w *writer) end() {
	w.ended = true
	w.cancel()
	w.store.release(w.run, w.name)
}
