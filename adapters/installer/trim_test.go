package installer

import (
	"os"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// TestTrim empties a cache that holds too much, with whatever is there for it.
func TestTrim(t *testing.T) {
	for said, want := range map[string]bool{"101\n": true, "100\n": false, "nonsense": false} {
		g := &fakeGuest{has: missing("uv"), prints: map[string]string{"st_size": said}}
		if err := New(Options{MaxCache: 100, Timeout: time.Hour}).Trim(t.Context(), g); err != nil {
			t.Error(err)
		}
		if counting, _ := g.command("st_size"); counting.Timeout != time.Hour {
			t.Errorf("counting may take %v", counting.Timeout)
		}
		_, byUV := g.command(cachedUV + " cache clean")
		if _, byPip := g.command("pip cache purge"); byUV != want || byPip != want {
			t.Errorf("%q: %+v", said, g.runs)
		}
	}
	g := &fakeGuest{}
	if err := New(Options{}).Trim(t.Context(), g); err != nil || len(g.runs) > 0 {
		t.Errorf("without a bound: %v, %+v", err, g.runs)
	}
}

// TestRealTrim fills a cache, which the next installation fills again.
func TestRealTrim(t *testing.T) {
	g := container(t)
	p := New(Options{CABundle: os.Getenv("SSL_CERT_FILE"), MaxCache: 1})
	for range 2 {
		if _, err := p.Install(t.Context(), g, core.Ready{}, requirements(t, "six"), nil); err != nil {
			t.Fatal(err)
		}
		g.shell(t, "test -d "+core.GuestCache+"/uv")
		if err := p.Trim(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if left := g.shell(t, "find "+core.GuestCache+"/uv "+core.GuestCache+"/pip -type f ! -name .lock 2>/dev/null || true"); left != "" {
			t.Errorf("left %s", left)
		}
		g.shell(t, cachedUV+" --version; rm -rf "+core.GuestEnvironment+"/*")
	}
}
