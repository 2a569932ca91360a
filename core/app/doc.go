// Package app holds Boxwright's use cases: run a program once, install an environment, clean up.
//
// It drives the ports and decides in which order things happen, what is undone when a step fails
// and what is told. It knows no engine, no transport, no config file: those are adapters, handed
// to New by cmd/boxwright.
package app
