// Package e2e drives the built programs as their users do: it starts the server, talks MCP to it
// over stdio with real clients, and looks at the engine from outside.
//
// It holds tests only, and imports nothing of Boxwright's: what it knows are tools, results,
// settings, labels and exit codes, which users and scripts rely on. Rules that need no engine are
// tested beside the code that has them.
package e2e
