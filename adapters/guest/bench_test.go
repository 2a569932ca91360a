package guest_test

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkRun measures print('hello') in a box that waits, from the host's call to its answer.
func BenchmarkRun(b *testing.B) {
	if _, err := docker("image", "inspect", pythonImage); err != nil {
		b.Skip("needs Docker")
	}
	g := connect(b, newBox(b, pythonImage))
	run(b, g, python("print('hello')"))
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		run(b, g, python("print('hello')"))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkFirstRun measures from the request for a container to the end of the first run in it.
func BenchmarkFirstRun(b *testing.B) {
	if _, err := docker("image", "inspect", pythonImage); err != nil {
		b.Skip("needs Docker")
	}
	newBox(b, pythonImage) // builds the agent
	for b.Loop() {
		box := newBox(b, pythonImage)
		began := time.Now()
		run(b, connect(b, box), python("print('hello')"))
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "dial-to-end-ms")
	}
}

// BenchmarkFlood measures 20 MB of output in one piece.
func BenchmarkFlood(b *testing.B) {
	if _, err := docker("image", "inspect", pythonImage); err != nil {
		b.Skip("needs Docker")
	}
	g := connect(b, newBox(b, pythonImage))
	for b.Loop() {
		run(b, g, python("print('x' * 20_000_000)"))
	}
}

// BenchmarkCell measures an expression in a session, from the host's call to its answer.
func BenchmarkCell(b *testing.B) {
	if _, err := docker("image", "inspect", pythonImage); err != nil {
		b.Skip("needs Docker")
	}
	g := connect(b, newBox(b, pythonImage))
	run(b, g, cell("1"))
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		run(b, g, cell("1"))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
