package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/telemetry"
	"github.com/boxwright/boxwright/core"
)

func envWarmCommand() *cobra.Command {
	var flags envFlags
	var image string
	c := &cobra.Command{
		Use:   "warm [PACKAGE ...]",
		Short: "Install sets of packages before a run asks for them",
		Long: `Installs the packages, as one set, for runs that ask for just these; or, if none are named,
the sets of dependencies.warm of the settings. What is installed already is left as it is.`,
		Example: `  boxwright env warm numpy pandas matplotlib
  boxwright env warm --image python:3.13-slim "polars>=1"`,
		RunE: func(c *cobra.Command, packages []string) error {
			settings, err := flags.load(c)
			if err != nil {
				return err
			}
			sets, err := setsToWarm(settings, image, packages)
			if err != nil {
				return err
			}
			return withSystem(c.Context(), settings, func(s *system) error {
				list, err := warm(c.Context(), s, sets, c.ErrOrStderr())
				if len(list) > 0 {
					err = errors.Join(flags.printAll(c.OutOrStdout(), list), err)
				}
				return err
			})
		},
	}
	flags.add(c)
	c.Flags().StringVar(&image, "image", "", "the image of the runs; default that of a run that names none")
	return c
}

// setsToWarm are the set on the command line, or else those of the settings.
func setsToWarm(c config.Config, image string, packages []string) ([]core.EnvironmentSet, error) {
	if len(packages) > 0 {
		return []core.EnvironmentSet{{Image: image, Packages: packages, Tenant: localTenant}}, nil
	}
	if image != "" {
		return nil, core.Errorf(core.ErrInvalid, "--image is given, but no packages").WithHint("write: boxwright env warm --image %s PACKAGE ...", image)
	}
	sets := warmSets(c)
	if len(sets) == 0 {
		return nil, core.Errorf(core.ErrInvalid, "no packages are named, and the settings have none to install ahead").
			WithHint("write: boxwright env warm PACKAGE ..., or set dependencies.warm")
	}
	return sets, nil
}

// warmSets are the sets of the settings, for the one client of a stdio server.
func warmSets(c config.Config) []core.EnvironmentSet {
	sets := c.Dependencies.WarmSets()
	for i := range sets {
		sets[i].Tenant = localTenant
	}
	return sets
}

// warm installs all sets that can be, and tells a person how it goes on.
func warm(ctx context.Context, s *system, sets []core.EnvironmentSet, person io.Writer) ([]core.Environment, error) {
	var list []core.Environment
	var errs []error
	for _, set := range sets {
		name, last := strings.Join(set.Packages, ", "), ""
		e, err := s.service.WarmEnvironment(ctx, set, func(p core.Progress) {
			if p.Message != last {
				last = p.Message
				say(person, "%s: %s\n", name, core.PlainText(last))
			}
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, e)
	}
	return list, errors.Join(errs...)
}

// withSystem wires a system for one command: no box waits, and sessions are left to the servers they belong to.
func withSystem(ctx context.Context, c config.Config, use func(*system) error) (err error) {
	if err := lasts(c.Storage); err != nil {
		return err
	}
	c.Pool.Enabled, c.Sessions.KeepOnExit = false, true
	if c.Log.Level == "info" {
		c.Log.Level = "warn" // what a command does is told otherwise
	}
	log, err := telemetry.NewLog(os.Stderr, c.Log.Level, c.Log.Format)
	if err != nil {
		return err
	}
	s, err := wire(c, log)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, s.close(closing))
	}()
	return use(s)
}
