//go:build remote && containers_image_openpgp

package podman

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk/daemontest"
)

func TestNames(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for ref, want := range map[string][]string{
		"python:3.11-slim":                    {"localhost/python:3.11-slim", "docker.io/library/python:3.11-slim"},
		"docker.io/library/python:3.11-slim":  {"localhost/python:3.11-slim", "docker.io/library/python:3.11-slim"},
		"python":                              {"localhost/python:latest", "docker.io/library/python:latest"},
		"team/tool:1":                         {"localhost/team/tool:1", "docker.io/team/tool:1"},
		"localhost/tool:1":                    {"localhost/tool:1"},
		"localhost:5000/tool:1":               {"localhost:5000/tool:1"},
		"registry.example/a/b/c:1":            {"registry.example/a/b/c:1"},
		"tool@" + digest:                      {"localhost/tool@" + digest, "docker.io/library/tool@" + digest},
		"registry.example:1/tool:1@" + digest: {"registry.example:1/tool@" + digest},
	} {
		name, err := core.NormalizeImage(ref)
		if got := localNames(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", ref, got, err, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for ref, want := range map[string]bool{
		"127.0.0.1:5000/x:1": true, "127.9.9.9/x:1": true, "localhost:5000/x:1": true, "[::1]:5000/x:1": true,
		"registry.example/x:1": false, "python:3.11-slim": false, "10.0.0.1:5000/x:1": false, "localhost.example/x:1": false,
	} {
		if got := isLoopback(ref); got != want {
			t.Errorf("%s: %v", ref, got)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	w := &lineWriter{each: func(line string) { got = append(got, line) }}
	for _, part := range []string{"Trying", " to pull\n\n", "a\xff\nb\n", strings.Repeat("x", 500), strings.Repeat("x", 500) + "\n", "rest"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if want := []string{"Trying to pull", "a", "b", strings.Repeat("x", maxLine)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPullByDigest(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		r := daemontest.NewRegistry(t)
		digest, err := r.Push(t, r.Host+"/some/image:1", "amd64").Digest()
		if err != nil {
			t.Fatal(err)
		}
		b := l.backend(nil)
		for _, ref := range []string{r.Host + "/some/image@" + digest.String(), r.Host + "/some/image:1@" + digest.String()} {
			l.removeImage(t, fullName(ref))
			for _, policy := range []core.PullPolicy{core.PullMissing, core.PullNever, core.PullAlways} {
				got, err := b.EnsureImage(t.Context(), ref, policy, nil)
				if err != nil || got.Ref != ref || got.Platform != "linux/amd64" {
					t.Errorf("policy %q: %+v, %v", policy, got, err)
				}
			}
		}
	})
}

// TestConcurrentPullsAreOne: those who want the same image share its fetch, and one who leaves
// does not end it for the others.
func TestConcurrentPullsAreOne(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		r := daemontest.NewRegistry(t)
		ref := r.Host + "/some/image:1"
		r.Push(t, ref, "amd64")
		r.Hold = make(chan struct{})
		l.removeImage(t, ref)
		b := l.backend(nil)
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
		close(r.Hold)
		others.Wait()
		if asked := r.Manifests.Load(); asked > 2 {
			t.Errorf("the registry was asked %d times for one fetch", asked)
		}
	})
}

func TestImageOfAnotherArchitecture(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		r := daemontest.NewRegistry(t)
		ref := r.Host + "/foreign:1"
		r.Push(t, ref, "s390x")
		l.removeImage(t, ref)
		b := l.backend(nil)
		env := l.remoteEnv(t, b)
		env.Image = ref
		if _, err := b.EnsureImage(t.Context(), ref, core.PullMissing, nil); err != nil {
			if core.KindOf(err) == core.ErrUnsupported { // the engine looks at the platform itself
				return
			}
			t.Fatal(err)
		}
		_, err := b.Create(t.Context(), daemontest.Spec(env))
		if core.KindOf(err) != core.ErrUnsupported || !strings.Contains(err.Error(), "s390x") || !strings.Contains(err.Error(), ref) {
			t.Errorf("got %v", err)
		}
	})
}

func TestUnreachableRegistry(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		_, err := l.backend(nil).EnsureImage(t.Context(), "127.0.0.1:1/x:1", core.PullMissing, nil)
		if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" || !strings.Contains(err.Error(), "127.0.0.1:1/x:1") {
			t.Errorf("got %v", err)
		}
	})
}

// TestSignsOfLife: a layer that takes long is not taken for a registry that hangs.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		stop := whileItLasts(t.Context(), func(sofar time.Duration) { told = append(told, sofar) })
		time.Sleep(95 * time.Second)
		stop()
		synctest.Wait()
		time.Sleep(time.Hour)
		if !slices.Equal(told, []time.Duration{30 * time.Second, time.Minute, 90 * time.Second}) {
			t.Errorf("told %v", told)
		}
	})
}
