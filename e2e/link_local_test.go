package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLinkLocalAddresses are where clouds keep credentials. An installation reaches them only where the backend says so.
func TestLinkLocalAddresses(t *testing.T) {
	require(t, "engine")
	require(t, "root")
	t.Parallel()
	index, asked := listenLinkLocal(t)
	s := serve(t, setup{config: "dependencies: {index_url: 'http://" + index + "/simple'}\n"})
	outcome{refused: "dependency", says: []string{"six"}}.check(t, s.run(t, program("print('ran')", "dependencies", []string{"six"})))
	says := func(warning string) bool { return strings.Contains(warning, "link-local addresses") }
	if reached, told := asked() > 0, slices.ContainsFunc(backendWarnings(t), says); reached != told {
		t.Errorf("a link-local address is reached: %v; the backend says so: %v", reached, told)
	}
}

// listenLinkLocal is a package index without packages at a link-local address of this machine, as a cloud's service is at one.
func listenLinkLocal(t *testing.T) (index string, asked func() int64) {
	t.Helper()
	address := fmt.Sprintf("169.254.%d.%d", 1+rand.IntN(254), rand.IntN(256))
	ip := func(what string) {
		if out, err := exec.Command("ip", "addr", what, address+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("ip addr %s %s: %v: %s", what, address, err, out)
		}
	}
	ip("add")
	t.Cleanup(func() { ip("del") })
	listener, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		http.NotFound(w, r)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String(), count.Load
}

// backendWarnings are what the place's backend tells an operator.
func backendWarnings(t *testing.T) []string {
	t.Helper()
	work := here().folder(t)
	cmd := here().Program(filepath.Join(programs, "boxwright"), "plugin", "list", "--json", "--config", settingsFile(t, here().settings(t, "")))
	cmd.Dir, cmd.Env = work, here().Environment(work)
	out, err := cmd.Output()
	var plugins []struct {
		Name     string
		Healthy  bool
		Warnings []string
	}
	if err == nil {
		err = json.Unmarshal(out, &plugins)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range plugins {
		if plugin.Name == here().Backend && plugin.Healthy {
			return plugin.Warnings
		}
	}
	t.Fatalf("the backend is not among %s", out)
	return nil
}
