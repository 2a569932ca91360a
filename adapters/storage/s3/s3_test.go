package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/boxwright/boxwright/adapters/storage/s3"
	"github.com/boxwright/boxwright/adapters/storage/s3/s3test"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/artifact"
	"github.com/boxwright/boxwright/ports/artifact/artifacttest"
)

// in makes a store in a bucket of the server, with a prefix of its own.
func in(t *testing.T, s *s3test.Server, change func(*s3.Options)) *s3.Artifacts {
	t.Helper()
	o := s3.Options{Endpoint: s.Endpoint, Bucket: s3test.Bucket, Prefix: "test/" + rand.Text(), AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}
	if change != nil {
		change(&o)
	}
	store, err := s3.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestArtifacts(t *testing.T) {
	s := s3test.Serve(t)
	artifacttest.Run(t, artifacttest.Harness{New: func(t *testing.T) artifact.Store { return in(t, s, nil) }})
}

// TestBigFile goes in parts, and any range of it can be read.
func TestBigFile(t *testing.T) {
	store := in(t, s3test.Serve(t), nil)
	w, err := store.Create(t.Context(), "r1", "big")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	sum := sha256.New()
	piece := make([]byte, 333_333)
	const pieces = 60 // 20 MB: three parts
	for i := range pieces {
		copy(piece, fmt.Sprintf("piece %d", i))
		sum.Write(piece)
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.Open(t.Context(), "r1", "big"); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("before its end: %v", err)
	}
	a, err := w.Commit("")
	if err != nil || a.Size != pieces*int64(len(piece)) || a.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		t.Fatalf("%+v, %v", a, err)
	}
	f, _, err := store.Open(t.Context(), "r1", "big")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(50*int64(len(piece)), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	if _, err := io.ReadFull(f, got); err != nil || string(got) != "piece 50" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestAway: what the store does not take is an error that says so, nothing half-written is served, and it works
// again by itself.
func TestAway(t *testing.T) {
	s := s3test.Serve(t)
	store := in(t, s, nil)
	half := begin(t, store, "half", make([]byte, 12<<20))
	put(t, store, "before", "content")
	s.Stop()
	_, _, err := store.Open(t.Context(), "r1", "before")
	refused(t, "open", err)
	_, err = store.List(t.Context(), "r1")
	refused(t, "list", err)
	_, err = store.Sweep(t.Context(), time.Now(), 0)
	refused(t, "sweep", err)
	_, err = half.Commit("")
	refused(t, "commit", err)
	_, err = store.Create(t.Context(), "r1", "f")
	refused(t, "create", err)
	s.Start(t)
	list, err := store.List(t.Context(), "r1")
	if err != nil || len(list) != 1 || list[0].Name != "before" {
		t.Errorf("afterwards there are %+v, %v", list, err)
	}
	put(t, store, "half", "whole")
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" || strings.Contains(err.Error(), s3test.SecretKey) {
		t.Errorf("%s: %v", what, err)
	}
}

func begin(t *testing.T, store artifact.Store, name string, content []byte) artifact.Writer {
	t.Helper()
	w, err := store.Create(t.Context(), "r1", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Abort)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	return w
}

func put(t *testing.T, store artifact.Store, name, content string) {
	t.Helper()
	if _, err := begin(t, store, name, []byte(content)).Commit(""); err != nil {
		t.Fatal(err)
	}
}

func TestWrongSettings(t *testing.T) {
	s := s3test.Serve(t)
	for name, c := range map[string]struct {
		change func(*s3.Options)
		says   string
	}{
		"bucket": {func(o *s3.Options) { o.Bucket = "no-such-bucket" }, `no bucket "no-such-bucket"`},
		"key":    {func(o *s3.Options) { o.SecretKey = "another-secret" }, "refuses the server's key"},
		"user":   {func(o *s3.Options) { o.AccessKey = "another-user" }, "refuses the server's key"},
	} {
		store := in(t, s, c.change)
		if _, err := store.List(t.Context(), "r1"); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: list: %v", name, err)
		}
		if _, err := store.Create(t.Context(), "r1", "f"); core.KindOf(err) != core.ErrUnavailable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: create: %v", name, err)
		}
	}
	for _, endpoint := range []string{"", "host:1", "ftp://h", "http://", "http://h/path", "http://u:p@h"} {
		if _, err := s3.New(s3.Options{Endpoint: endpoint, Bucket: "b"}); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%q is taken: %v", endpoint, err)
		}
	}
}

// TestFull: a store without room says so.
func TestFull(t *testing.T) {
	s := s3test.Serve(t)
	store := in(t, s, func(o *s3.Options) { o.Transport = full{http.DefaultTransport} })
	w := begin(t, store, "f", bytes.Repeat([]byte("x"), 10))
	if _, err := w.Commit(""); core.KindOf(err) != core.ErrExhausted || core.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// full answers what is to be written as a store does that has no room.
type full struct{ http.RoundTripper }

func (f full) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return f.RoundTripper.RoundTrip(r)
	}
	_, err := io.Copy(io.Discard, r.Body)
	body := `<?xml version="1.0"?><Error><Code>XMinioStorageFull</Code><Message>no room</Message></Error>`
	return &http.Response{
		StatusCode: http.StatusInsufficientStorage, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}, err
}

// TestWriteGivenUp: a request's end in the middle leaves nothing.
func TestWriteGivenUp(t *testing.T) {
	store := in(t, s3test.Serve(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := store.Create(ctx, "r1", "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 12<<20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	w.Abort()
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("it can be written to after its end")
	}
	if _, _, err := store.Open(t.Context(), "r1", "f"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	put(t, store, "f", "again")
}

// hanging does not answer what is to be written before the caller is tired of it.
type hanging struct{ http.RoundTripper }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return h.RoundTripper.RoundTrip(r)
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestHanging: whoever gives up a file waits for it no longer, small or big.
func TestHanging(t *testing.T) {
	s := s3test.Serve(t)
	store := in(t, s, func(o *s3.Options) { o.Transport = hanging{http.DefaultTransport} })
	for name, size := range map[string]int{"small": 10, "big": 20 << 20} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w, err := store.Create(ctx, "r1", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write(make([]byte, size)); err == nil {
			_, err = w.Commit("")
		}
		if core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		w.Abort()
	}
}

// busyOnce answers the first that is to be written as a store does that has too much to do.
type busyOnce struct {
	http.RoundTripper
	was atomic.Bool
}

func (b *busyOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || b.was.Swap(true) {
		return b.RoundTripper.RoundTrip(r)
	}
	_, err := io.Copy(io.Discard, r.Body)
	body := `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>later</Message></Error>`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}, err
}

// TestBusyForAMoment: what a store does not take at once is sent once more, whole.
func TestBusyForAMoment(t *testing.T) {
	s := s3test.Serve(t)
	for name, content := range map[string]string{"small": "content", "big": strings.Repeat("content", 2<<20)} {
		store := in(t, s, func(o *s3.Options) { o.Transport = &busyOnce{RoundTripper: http.DefaultTransport} })
		put(t, store, name, content)
		f, known, err := store.Open(t.Context(), "r1", name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if string(text) != content || known.Size != int64(len(content)) || err != nil {
			t.Errorf("%s: %d of %d bytes, %v", name, len(text), len(content), err)
		}
		_ = f.Close()
	}
}

// TestUploadsWithoutEnd are removed once nobody can be at them any more.
func TestUploadsWithoutEnd(t *testing.T) {
	s := s3test.Serve(t)
	now := time.Now()
	store := in(t, s, func(o *s3.Options) { o.Prefix, o.Now = "mine", func() time.Time { return now } })
	client, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(s3test.AccessKey, s3test.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mine/runs/r1/data/x", "another/runs/r1/data/x"} {
		if _, err := client.NewMultipartUpload(t.Context(), s3test.Bucket, key, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		if _, err := store.Sweep(t.Context(), time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
		left := ""
		for upload := range client.ListIncompleteUploads(t.Context(), s3test.Bucket, "", true) {
			left += upload.Key + " "
		}
		if left != want {
			t.Errorf("left is %q, want %q", left, want)
		}
	}
	check("another/runs/r1/data/x mine/runs/r1/data/x ")
	now = now.Add(25 * time.Hour)
	check("another/runs/r1/data/x ")
}
