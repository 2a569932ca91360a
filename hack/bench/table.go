package main

import (
	"fmt"
	"os"
	"text/tabwriter"
)

// table holds figures by row and column, in the order in which they come.
type table struct {
	columns []string
	rows    []string
	cells   map[string]map[string]string
}

func (t *table) set(row, column, format string, args ...any) {
	if t.cells == nil {
		t.cells = map[string]map[string]string{}
	}
	if t.cells[row] == nil {
		t.cells[row] = map[string]string{}
		t.rows = append(t.rows, row)
	}
	t.cells[row][column] = fmt.Sprintf(format, args...)
}

func (t *table) print() {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, column := range t.columns {
		fmt.Fprintf(out, "\t%s", column)
	}
	fmt.Fprintln(out)
	for _, row := range t.rows {
		fmt.Fprint(out, row)
		for _, column := range t.columns {
			cell := t.cells[row][column]
			if cell == "" {
				cell = "-"
			}
			fmt.Fprintf(out, "\t%s", cell)
		}
		fmt.Fprintln(out)
	}
	_ = out.Flush()
}
