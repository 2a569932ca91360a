package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	coldInstalls = 3
	seenPairs    = 12

	// rest is how long a server gets to end what goes on after an installation, and to have boxes wait for the next.
	rest = 6 * time.Second

	preinstalled = "boxwright-test/preinstalled:1" // has six
)

// packageSets are installed one after the other. The first has a server get what it needs only once: uv.
func packageSets() [][]string {
	return [][]string{{"tomli"}, {"requests"}, {"numpy", "pandas"}}
}

// newPackages compares how long packages take that nobody has asked for before with "uv pip install" in a box that
// runs already, both with a cache that has nothing of them.
func (m *measured) newPackages(ctx context.Context) error {
	bare, err := m.boxes.openUV(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	ours, uv := map[string][]time.Duration{}, map[string][]time.Duration{}
	for n := range coldInstalls {
		err := m.withNewServer(ctx, fmt.Sprint("cold", n), func(server *mcpServer) error { return installAll(ctx, server, ours) })
		if err != nil {
			return err
		}
		for _, set := range packageSets() {
			took, err := bare.install(ctx, set)
			if err != nil {
				return err
			}
			uv[strings.Join(set, " ")] = append(uv[strings.Join(set, " ")], took)
		}
	}
	for _, set := range packageSets()[1:] {
		name := strings.Join(set, " ")
		m.set("never seen: "+name, "%s", ms(quantile(ours[name], .5)))
		m.set("  uv pip install in a running box: "+name, "%s", ms(quantile(uv[name], .5)))
		m.set("  ratio: "+name, "%.2f", ratio(ours[name], uv[name]))
	}
	return nil
}

// installAll notes how long a call waits for its packages.
func installAll(ctx context.Context, server *mcpServer, times map[string][]time.Duration) error {
	for _, set := range packageSets() {
		time.Sleep(rest)
		durations, err := server.runWith(ctx, hello, set...)
		if err != nil {
			return err
		}
		name := strings.Join(set, " ")
		times[name] = append(times[name], time.Duration(durations["dependencies"]*float64(time.Millisecond)))
	}
	return nil
}

// withNewServer does something with a server that has no past, and removes what it leaves in the engine.
func (m *measured) withNewServer(ctx context.Context, name string, do func(*mcpServer) error) error {
	dir, err := m.place.newState(name)
	if err != nil {
		return err
	}
	defer m.boxes.purge(ctx, dir)
	server, err := startServer(ctx, m.place, "--set", "storage.dir="+dir)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // it is measured no more
	time.Sleep(refill)
	return do(server)
}

// newState makes a folder for a server's state.
func (p *benchPlace) newState(name string) (dir string, err error) {
	dir = filepath.Join(p.state(), name)
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // another user reads it
		return "", err
	}
	return dir, p.Give(dir)
}

// seenPackages compares a call whose package is installed already with the same call whose image has the package,
// in a server that was started after the installation.
func (m *measured) seenPackages(ctx context.Context) error {
	const code, other = "import six; print('hello')", "six!=1.17.0" // the image has this one
	dir, err := m.place.newState("seen")
	if err != nil {
		return err
	}
	defer m.boxes.purge(ctx, dir)
	flags := []string{"--set", "storage.dir=" + dir, "--set", "images.default=" + preinstalled}
	warm := m.place.program(filepath.Join(m.place.dir, "boxwright"),
		append([]string{"env", "warm", other, "--config", m.place.configFile()}, flags...)...)
	if out, err := warm.CombinedOutput(); err != nil {
		return fmt.Errorf("env warm: %w\n%s", err, out)
	}
	server, err := startServer(ctx, m.place, flags...)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // it is measured no more
	times := map[bool][]time.Duration{}
	for n := range 2 * seenPairs {
		var packages []string
		if n%2 == 1 {
			packages = []string{other}
		}
		time.Sleep(refill)
		began := time.Now()
		if _, err := server.runWith(ctx, code, packages...); err != nil {
			return err
		}
		if took := time.Since(began); n > 1 {
			times[n%2 == 1] = append(times[n%2 == 1], took)
		}
	}
	with, without := quantile(times[true], .5), quantile(times[false], .5)
	m.set("seen: whole call, its package installed", "%s", ms(with))
	m.set("  the same with the package in the image", "%s", ms(without))
	m.set("  difference", "%+.1f ms", float64((with-without).Microseconds())/1000)
	return nil
}
