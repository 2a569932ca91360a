package main

import (
	"fmt"
	"os"
	"strings"
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
	line := func(cells ...string) { _, _ = out.Write([]byte(strings.Join(cells, "\t") + "\n")) }
	line(append([]string{""}, t.columns...)...)
	for _, row := range t.rows {
		cells := []string{row}
		for _, column := range t.columns {
			cell := t.cells[row][column]
			if cell == "" {
				cell = "-"
			}
			cells = append(cells, cell)
		}
		line(cells...)
	}
	_ = out.Flush()
}
