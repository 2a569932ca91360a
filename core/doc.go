// Package core holds Boxwright's nouns and rules: boxes, limits, runs, records,
// requirements, errors. It is for everybody to speak the same language.
//
// It is not for doing: it has no I/O, no goroutines, no clock, and it imports the
// standard library only. The use cases are in core/app, the interfaces in ports/.
package core
