package docker

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

func TestPullByDigest(t *testing.T) {
	lab := newLab(t)
	r := daemontest.NewRegistry(t)
	digest, err := r.Push(t, r.Host+"/some/image:1", "amd64").Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref := r.Host + "/some/image@" + digest.String()
	lab.removeImage(t, ref)
	b := lab.backend(nil)
	for _, policy := range []core.PullPolicy{core.PullMissing, core.PullNever, core.PullAlways} {
		got, err := b.EnsureImage(t.Context(), ref, policy, nil)
		if err != nil || got.Ref != ref || got.Platform != "linux/amd64" {
			t.Errorf("policy %q: %+v, %v", policy, got, err)
		}
	}
}

func TestTagIsLatestByDefault(t *testing.T) {
	lab := newLab(t)
	r := daemontest.NewRegistry(t)
	r.Push(t, r.Host+"/image:latest", "amd64")
	r.Push(t, r.Host+"/image:other", "amd64")
	lab.removeImage(t, r.Host+"/image:latest")
	if _, err := lab.backend(nil).EnsureImage(t.Context(), r.Host+"/image", core.PullMissing, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.backend(nil).EnsureImage(t.Context(), r.Host+"/image:other", core.PullNever, nil); core.KindOf(err) != core.ErrNotFound {
		t.Errorf("another tag was fetched too: %v", err)
	}
}

// TestConcurrentPullsAreOne: those who want the same image share its fetch, and one who leaves
// does not end it for the others.
func TestConcurrentPullsAreOne(t *testing.T) {
	lab := newLab(t)
	r := daemontest.NewRegistry(t)
	ref := r.Host + "/some/image:1"
	r.Push(t, ref, "amd64")
	r.Hold = make(chan struct{})
	lab.removeImage(t, ref)
	b := lab.backend(nil)

	told := make(chan core.Progress, 1000)
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := b.EnsureImage(first, ref, "", func(p core.Progress) { told <- p })
		left <- err
	}()
	if p := <-told; p.Phase != core.PhaseImage || !strings.Contains(p.Message, ref) {
		t.Errorf("progress %+v", p)
	}
	before := r.Manifests.Load()
	var others sync.WaitGroup
	joined := make(chan struct{}, 3)
	for range 3 {
		others.Go(func() {
			var once sync.Once
			_, err := b.EnsureImage(t.Context(), ref, "", func(core.Progress) { once.Do(func() { joined <- struct{}{} }) })
			if err != nil {
				t.Errorf("one who waited: %v", err)
			}
		})
	}
	for range 3 {
		<-joined
	}
	leave()
	if err := <-left; core.KindOf(err) != core.ErrCancelled {
		t.Errorf("one who left: %v", err)
	}
	if after := r.Manifests.Load(); after > before+1 {
		t.Errorf("the registry was asked %d times more", after-before)
	}
	close(r.Hold)
	others.Wait()
}

// TestPullErrors: each of a registry's refusals has its own kind, and names the image.
func TestPullErrors(t *testing.T) {
	e := &engine{finding: newFinder(Settings{}, fakeMachine(nil, nil))}
	e.known.Store(&facts{})
	for text, want := range map[string]core.Kind{
		"manifest for x:1 not found: manifest unknown: manifest unknown":                                                     core.ErrNotFound,
		"pull access denied for x, repository does not exist or may require 'docker login': denied: requested access":        core.ErrNotFound,
		"no matching manifest for linux/arm64/v8 in the manifest list entries":                                               core.ErrUnsupported,
		"unauthorized: authentication required":                                                                              core.ErrDenied,
		`Get "https://r.example/v2/": dial tcp: lookup r.example: no such host`:                                              core.ErrUnavailable,
		`Get "https://r.example/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded ...)`: core.ErrUnavailable,
		`Get "https://r.example/v2/": x509: certificate signed by unknown authority`:                                         core.ErrUnavailable,
		"write /var/lib/docker/x: no space left on device":                                                                   core.ErrExhausted,
		"something new": core.ErrInternal,
	} {
		err := e.pullError(t.Context(), "x:1", textError(text))
		if core.KindOf(err) != want || !strings.Contains(err.Error(), "x:1") {
			t.Errorf("%s: got %s: %v", text, core.KindOf(err), err)
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }

func TestUnreachableRegistry(t *testing.T) {
	lab := newLab(t)
	_, err := lab.backend(nil).EnsureImage(t.Context(), "127.0.0.1:1/x:1", core.PullMissing, nil)
	if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" || !strings.Contains(err.Error(), "127.0.0.1:1/x:1") {
		t.Errorf("got %v", err)
	}
}
