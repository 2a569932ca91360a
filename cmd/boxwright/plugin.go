package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/core"
)

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

// Unwrap lets errors.Is find what happened.
func (e exitError) Unwrap() error { return e.error }

// exitCode is what the process ends with after err.
func exitCode(err error) int {
	if own, ok := errors.AsType[exitError](err); ok {
		return own.code
	}
	if core.KindOf(err) == core.ErrInvalid {
		return exitUsage
	}
	return exitFailure
}

func pluginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "List, check and begin backend plugins",
		Args:  noSuchCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(pluginListCommand(), pluginVerifyCommand(), pluginNewCommand())
	return c
}

// noSuchCommand refuses what is not the name of a command.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return core.Errorf(core.ErrInvalid, "there is no command %q", c.CommandPath()+" "+args[0]).WithHint("see %s --help", c.CommandPath())
}
