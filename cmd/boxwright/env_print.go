package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/boxwright/boxwright/core"
)

// shortKey is how much of a key a table shows.
const shortKey = 12

// printAll prints a table, or JSON.
func (f *envFlags) printAll(w io.Writer, list []core.Environment) error {
	return listing[core.Environment, shown]{
		shown: shownOf, empty: "no packages are installed", header: "KEY\tBACKEND\tSIZE\tCREATED\tUSED\tPACKAGES",
		row: func(table io.Writer, e core.Environment) {
			say(table, "%.*s\t%s\t%s\t%s\t%s\t%s\n", shortKey, e.Key, e.Backend, roughly(e.Size), clock(e.Created), clock(e.Used), strings.Join(e.Names, ", "))
		},
	}.print(w, f.asJSON, list)
}

// printEnvironment prints one with all that is known of it.
func printEnvironment(w io.Writer, e core.Environment) {
	s := shownOf(e)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "key\t%s\n", s.Key)
	say(table, "packages\t%s\n", strings.Join(s.Packages, ", "))
	say(table, "backend\t%s\n", s.Backend)
	say(table, "language\t%s\n", s.Language)
	say(table, "size\t%s\n", roughly(s.Size))
	say(table, "created\t%s\n", clock(s.Created))
	say(table, "used\t%s\n", clock(s.Used))
	_ = table.Flush() // as say
	section(w, "lock", s.Lock)
	section(w, "the installer's last lines", s.Report)
}

// section prints a text of several lines under a title, if there is one.
func section(w io.Writer, title, text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		say(w, "\n%s:\n%s\n", title, text)
	}
}

// clock is a time for people, in their own zone.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// roughly is a size for people.
func roughly(bytes int64) string {
	size, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "B" || size >= 99.95 {
		return fmt.Sprintf("%.0f %s", size, unit)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
