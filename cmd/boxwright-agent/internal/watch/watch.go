// Package watch enforces a box's limits where its engine cannot.
package watch

// Bounds are the limits of a box. A zero field is none.
type Bounds struct {
	Memory    int64 // bytes
	Processes int64 // processes and threads
}
