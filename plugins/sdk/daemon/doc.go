// Package daemon is what backends share whose engine is a daemon with an API, as Docker's and
// Podman's are: to find it, to read an exec's streams, to sort a registry's refusals. It speaks to no
// engine itself.
package daemon
