// Command bench measures Boxwright against the bare engine, in one run on one machine, and prints
// ratios. It asserts nothing: figures of a busy machine are no fault.
//
//	bench [-packages] docker podman podman-rootless gvisor gvisor-rootless
//	bench -soak 10000 -sessions 200 docker
//
// With -packages it measures only what packages cost. The second measures what grows and what gets slower over many runs and with many sessions.
// The places are measured in turns, so that a machine whose speed drifts is unfair to none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	image  = "python:3.11-slim"
	hello  = "print('hello')"
	rounds = 15
	runs   = 300
	warm   = 4 // calls in a round

	// refill is how long a server gets to have boxes wait again.
	refill = 1500 * time.Millisecond
)

func main() {
	long := soak{}
	flag.IntVar(&long.runs, "soak", 0, "make so many one-shot runs instead, and tell what grows")
	flag.IntVar(&long.sessions, "sessions", 200, "how many sessions are open in a soak; 0 leaves them out")
	onlyPackages := flag.Bool("packages", false, "measure only what packages cost")
	flag.Parse()
	if err := bench(context.Background(), flag.Args(), long, *onlyPackages); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, names []string, long soak, onlyPackages bool) (err error) {
	if len(names) == 0 {
		names = []string{"docker"}
	}
	state, err := os.MkdirTemp("", "boxwright-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)                      //nolint:errcheck // a temporary folder
	if err := os.Chmod(state, 0o755); err != nil { //nolint:gosec // another user reads it
		return err
	}
	figures := &table{columns: names}
	if long.runs > 0 {
		return long.measure(ctx, names, state, figures)
	}
	return compare(ctx, names, state, figures, onlyPackages)
}

// compare measures the places in turns, or only what packages cost.
func compare(ctx context.Context, names []string, state string, figures *table, onlyPackages bool) (err error) {
	var all []*measured
	defer func() {
		for _, m := range all {
			err = errors.Join(err, m.close())
		}
	}()
	for _, name := range names {
		m, err := open(ctx, name, state, figures)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	if !onlyPackages {
		if err := measureRuns(ctx, all); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := errors.Join(m.newPackages(ctx), m.seenPackages(ctx)); err != nil {
			return fmt.Errorf("%s: %w", m.place.Name, err)
		}
	}
	figures.print()
	return nil
}

func measureRuns(ctx context.Context, all []*measured) error {
	if err := takeTurns(ctx, all); err != nil {
		return err
	}
	for _, m := range all {
		m.report()
		if err := m.load(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.place.Name, err)
		}
	}
	return nil
}

// takeTurns measures what is compared between the places and with the bare engines. The first
// round fills caches.
func takeTurns(ctx context.Context, all []*measured) error {
	for round := range rounds + 1 {
		for _, m := range all {
			if err := m.round(ctx, round > 0); err != nil {
				return fmt.Errorf("%s: %w", m.place.Name, err)
			}
		}
	}
	return nil
}

// measured is a place with a server and a plugin of its own, and what was measured there.
type measured struct {
	place   *benchPlace
	server  *mcpServer // as it comes, with a box that waits
	cold    *mcpServer // without
	remote  *mcpServer // as it comes, over streamable HTTP
	boxes   *boxes
	figures *table
	times   map[string][]time.Duration
}

func open(ctx context.Context, name, state string, figures *table) (*measured, error) {
	p, err := placeOf(name, state)
	if err != nil {
		return nil, err
	}
	m := &measured{place: p, figures: figures, times: map[string][]time.Duration{}}
	if m.server, err = startServer(ctx, p); err != nil {
		return nil, err
	}
	m.set("server start to answered initialize", "%s", ms(m.server.startup))
	m.set("server memory, idle", "%s", rss(m.server.pid))
	if m.cold, err = startServer(ctx, p, "--set", "pool.enabled=false"); err != nil {
		return nil, err
	}
	if m.remote, err = startRemote(ctx, p); err != nil {
		return nil, err
	}
	m.boxes, err = openBoxes(ctx, p, filepath.Base(state))
	return m, err
}

func (m *measured) close() error {
	if m.boxes != nil {
		m.boxes.close()
	}
	return errors.Join(m.server.Close(), m.cold.Close(), m.remote.halt())
}

func (m *measured) set(row, format string, args ...any) {
	m.figures.set(row, m.place.Name, format, args...)
}

// round measures the bare engine, a cold call and the steps of a box, once each, and some calls that find a box.
func (m *measured) round(ctx context.Context, counts bool) error {
	times := map[string][]time.Duration{}
	timed := func(step string, do func() error) error {
		began := time.Now()
		err := do()
		times[step] = append(times[step], time.Since(began))
		return err
	}
	if err := timed("bare", m.place.runBare); err != nil {
		return err
	}
	if err := timed("cold", func() error { return m.call(ctx, m.cold, "cold", times) }); err != nil {
		return err
	}
	if err := m.boxes.one(ctx, timed); err != nil {
		return err
	}
	for range warm {
		time.Sleep(refill)
		if err := timed("warm", func() error { return m.call(ctx, m.server, "warm", times) }); err != nil {
			return err
		}
		if err := timed("remote", func() error { return m.call(ctx, m.remote, "remote", times) }); err != nil {
			return err
		}
	}
	time.Sleep(refill) // it is not to slow the next round down
	if !counts {
		return nil
	}
	for step, all := range times {
		m.times[step] = append(m.times[step], all...)
	}
	return nil
}

func (p *benchPlace) runBare() error {
	out, err := p.program(p.bare[0], p.bare[1:]...).Output()
	if err != nil || string(out) != "hello\n" {
		return fmt.Errorf("%v: %q, %w", p.bare, out, err)
	}
	return nil
}

func (m *measured) call(ctx context.Context, server *mcpServer, kind string, times map[string][]time.Duration) error {
	phases, err := server.run(ctx, hello)
	for _, phase := range phasesShown() {
		row := kind + ": " + phase
		times[row] = append(times[row], time.Duration(phases[phase]*float64(time.Millisecond)))
	}
	return err
}

func phasesShown() []string { return []string{"queue", "image", "box", "run"} }

func (m *measured) report() {
	for _, kind := range []string{"warm", "cold"} {
		m.set(kind+" one-shot, through an MCP client", "%s", spread(m.times[kind]))
		for _, phase := range phasesShown() {
			m.set(kind+": "+phase, "%s", ms(quantile(m.times[kind+": "+phase], .5)))
		}
	}
	m.set("warm one-shot over streamable HTTP", "%s", spread(m.times["remote"]))
	m.set("HTTP adds to stdio's median", "%s", ms(quantile(m.times["remote"], .5)-quantile(m.times["warm"], .5)))
	m.set("the bare engine's own run", "%s", spread(m.times["bare"]))
	m.set("cold to bare, ratio", "%.2f", ratio(m.times["cold"], m.times["bare"]))
	for _, step := range []string{"create", "dial", "first run", "destroy"} {
		m.set("box: "+step, "%s", ms(quantile(m.times[step], .5)))
	}
	m.set("run in a waiting box", "%s", spread(m.times["run"]))
}

// spread is the median and the 99th percentile.
func spread(all []time.Duration) string {
	return fmt.Sprintf("%s (p99 %s)", ms(quantile(all, .5)), ms(quantile(all, .99)))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// ratio is the median of the ratios pair by pair: it holds when the machine's speed drifts.
func ratio(a, b []time.Duration) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
