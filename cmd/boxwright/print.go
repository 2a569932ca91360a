package main

import (
	"io"
	"text/tabwriter"
)

// listing is how a command shows a list of T: as JSON of S, as a table, or by a sentence if there is nothing.
type listing[T, S any] struct {
	shown  func(T) S
	empty  string
	header string
	row    func(table io.Writer, item T)
}

func (l listing[T, S]) print(w io.Writer, asJSON bool, list []T) error {
	if asJSON {
		all := make([]S, len(list))
		for i, item := range list {
			all[i] = l.shown(item)
		}
		return writeJSON(w, all)
	}
	if len(list) == 0 {
		say(w, "%s\n", l.empty)
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "%s\n", l.header)
	for _, item := range list {
		l.row(table, item)
	}
	_ = table.Flush() // as say
	return nil
}
