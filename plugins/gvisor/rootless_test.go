package gvisor

import (
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// spawn starts the real executable, as that user if there is one.
func (l *lab) spawn(t *testing.T, plugin string, as *syscall.Credential) *sdk.Client {
	t.Helper()
	settings, err := json.Marshal(l.settings)
	if err != nil {
		t.Fatal(err)
	}
	return sdktest.Spawn(t, plugin, sdktest.Options{
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir},
		Config:  sdk.Config{Settings: settings, Agents: map[string]string{runtime.GOARCH: l.agent}, Instance: "lab", Server: "lab"},
		Process: &syscall.SysProcAttr{Setpgid: true, Credential: as},
	})
}

func TestConformanceOfTheExecutable(t *testing.T) {
	lab := newLab(t, "gvisor")
	client := lab.spawn(t, buildPlugin(t, lab.dir), nil)
	executiontest.Run(t, func(t *testing.T) executiontest.Env { return lab.remoteEnv(t, client) }, remoteSkips()...)
}

// remoteSkips are the checks whose hooks reach into the backend.
func remoteSkips() []string {
	return []string{"create/unenforced-refuse", "create/unenforced-warn", "create/all-or-nothing", "destroy/foreign", "volume/foreign", "common/unavailable"}
}

// ordinaryUser is BOXWRIGHT_TEST_USER.
func ordinaryUser(t *testing.T) *syscall.Credential {
	t.Helper()
	who, err := user.Lookup(os.Getenv("BOXWRIGHT_TEST_USER"))
	if err == nil && os.Getuid() != 0 {
		err = errors.New("only root can be another user")
	}
	if err != nil {
		require(t, "gvisor-rootless", err)
	}
	id := func(text string) uint32 {
		n, _ := strconv.ParseUint(text, 10, 32)
		return uint32(n)
	}
	return &syscall.Credential{Uid: id(who.Uid), Gid: id(who.Gid)}
}

// newUserLab is a lab of an ordinary user's, who has no more rights than any other.
func newUserLab(t *testing.T) (*lab, *syscall.Credential) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs runsc")
	}
	as := ordinaryUser(t)
	l := newLab(t, "gvisor-rootless")
	l.agent = readable(t, l.agent, filepath.Join(l.dir, "standin"))
	l.runsc = readable(t, l.runsc, filepath.Join(l.dir, "runsc"))
	l.settings.Runsc = l.runsc
	os.Mkdir(l.settings.Dir, 0o700)
	os.Chown(l.settings.Dir, int(as.Uid), int(as.Gid))
	return l, as
}

// readable copies a program to where everybody can run it: a test's own folder, and root's, are
// closed to others.
func readable(t *testing.T, from, to string) string {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestConformanceAsAnOrdinaryUser(t *testing.T) {
	lab, as := newUserLab(t)
	client := lab.spawn(t, buildPlugin(t, lab.dir), as)
	info, err := client.Info(t.Context())
	if err != nil || info.Limits[core.LimitMemory] != core.EnforcedRlimit || info.Limits[core.LimitCPU] != core.EnforcedSandbox {
		t.Errorf("it says of itself %+v, %v", info, err)
	}
	executiontest.Run(t, func(t *testing.T) executiontest.Env { return lab.remoteEnv(t, client) }, remoteSkips()...)
}
