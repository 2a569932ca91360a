package execution

// Standing is what a Guest may be as well: one that knows, without asking the agent, whether the stream
// that it has still stands. One that is not Standing has to be asked something to find out.
type Standing interface {
	// Stands reports whether the stream stood a moment ago. It returns at once.
	Stands() bool
}
