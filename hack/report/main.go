// Report shows how the end-to-end tests went in every place that boxes can live in, as one table
// of case by place, from what "go test -json" wrote:
//
//	report docker=docker.json podman=podman.json …
//
// Its exit code is 1 if a test failed, or if a place has no result at all. What a failed test
// printed comes after the table.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// event is one line of "go test -json".
type event struct {
	Action string
	Test   string
	Output string
}

// run is how one place's tests went.
type run struct {
	place   string
	ended   bool              // the last line of the whole run was there
	actions map[string]string // by test: pass, fail, skip
	output  map[string]string // by test; "" is what belongs to none
}

func main() {
	runs, err := readAll(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	table(os.Stdout, runs)
	if !explain(os.Stdout, runs) {
		os.Exit(1)
	}
}

func readAll(args []string) ([]run, error) {
	var runs []run
	for _, arg := range args {
		place, path, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not PLACE=FILE", arg)
		}
		file, err := os.Open(path) //nolint:gosec // reading what it is given is its purpose
		if err != nil {
			return nil, err
		}
		r, err := read(place, file)
		_ = file.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func read(place string, from io.Reader) (run, error) {
	r := run{place: place, actions: map[string]string{}, output: map[string]string{}}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.add(line)
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

// add takes a line; what is no event, such as a compiler's complaint, is output.
func (r *run) add(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.output[""] += string(line)
		return
	}
	switch e.Action {
	case "output":
		r.output[e.Test] += e.Output
	case "pass", "fail", "skip":
		r.actions[e.Test] = e.Action
		r.ended = r.ended || e.Test == ""
	}
}

// rows are the tests that have no subtests, in any place.
func rows(runs []run) []string {
	names := map[string]bool{}
	for _, r := range runs {
		for name := range r.actions {
			names[name] = name != ""
		}
	}
	for name := range maps.Clone(names) {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			delete(names, name[:i])
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// table is built in memory, whose writers do not fail.
func table(w io.Writer, runs []run) {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(first string, cell func(i int, r run) string) {
		cells := []string{first}
		for i, r := range runs {
			cells = append(cells, cell(i, r))
		}
		_, _ = out.Write([]byte(strings.Join(cells, "\t") + "\n"))
	}
	sums := make([]map[string]int, len(runs))
	line("case", func(i int, r run) string {
		sums[i] = map[string]int{}
		return r.place
	})
	for _, name := range rows(runs) {
		line(strings.ReplaceAll(strings.TrimPrefix(name, "Test"), "_", " "), func(i int, r run) string {
			cell := r.cell(name)
			sums[i][cell]++
			return cell
		})
	}
	line("ok / not for it / skipped / failed", func(i int, _ run) string {
		return fmt.Sprintf("%d/%d/%d/%d", sums[i][ok], sums[i][notForIt], sums[i][skipped], sums[i][failed])
	})
	_ = out.Flush()
	_, _ = io.WriteString(w, text.String())
}

// The cells of the table.
const (
	ok       = "ok"
	notForIt = "-" // the place does not have what the test is about
	skipped  = "skip"
	failed   = "FAIL"
)

// cell is how a test went. A test without a result did not end, unless one that it is part of
// went well without it, or was skipped as a whole.
func (r run) cell(name string) string {
	switch r.actions[name] {
	case "pass":
		return ok
	case "fail":
		return failed
	case "skip":
		return r.skip(name)
	}
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		switch r.actions[name[:i]] {
		case "skip":
			return r.skip(name[:i])
		case "pass":
			return notForIt
		}
	}
	return failed
}

func (r run) skip(name string) string {
	if strings.Contains(r.output[name], "not for "+r.place+":") {
		return notForIt
	}
	return skipped
}

// explain prints what failed tests said, and reports whether all is well.
func explain(w io.Writer, runs []run) bool {
	well := true
	for _, r := range runs {
		var bad []string
		for _, name := range rows(runs) {
			if r.cell(name) == failed {
				bad = append(bad, name)
			}
		}
		if len(bad) == 0 && r.ended && r.actions[""] == "pass" {
			continue
		}
		well = false
		said := []string{fmt.Sprintf("\n=== %s: %d failed\n", r.place, len(bad))}
		for _, name := range append(bad, r.parents(bad)...) {
			said = append(said, r.output[name])
		}
		if len(bad) == 0 || !r.ended {
			said = append(said, r.output[""])
		}
		_, _ = io.WriteString(w, strings.Join(said, ""))
	}
	return well
}

// parents are the failed tests that hold others; they may have something to say themselves.
func (r run) parents(bad []string) []string {
	names := map[string]bool{}
	for _, name := range bad {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			names[name[:i]] = r.actions[name[:i]] == "fail"
		}
	}
	maps.DeleteFunc(names, func(_ string, failed bool) bool { return !failed })
	return slices.Sorted(maps.Keys(names))
}
