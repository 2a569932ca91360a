package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/core"
)

func envGCCommand() *cobra.Command {
	var flags envFlags
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove installed packages that are beyond dependencies.keep",
		Long: `Removes what nobody has used for dependencies.keep.max_age, and then, the least recently used
first, as much as is above dependencies.keep.max_size. What may be in use stays. Servers do the same by themselves,
and make the room free when no run can need it any more.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := flags.load(c)
			if err != nil {
				return err
			}
			return withSystem(c.Context(), settings, func(s *system) error {
				collected, err := s.service.CollectEnvironments(c.Context())
				if err != nil {
					return err
				}
				return flags.printCollected(c.OutOrStdout(), collected)
			})
		},
	}
	flags.add(c)
	return c
}

// printCollected says what was removed.
func (f *envFlags) printCollected(w io.Writer, c core.Collected) error {
	if f.asJSON {
		return writeJSON(w, struct {
			Environments int   `json:"environments"`
			Bytes        int64 `json:"bytes"`
		}(c))
	}
	say(w, "removed %d installed sets of packages, %s\n", c.Environments, roughly(c.Bytes))
	return nil
}
