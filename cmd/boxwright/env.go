package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

func envCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "env",
		Short: "List, show, install and remove sets of installed packages",
		Long: `What runs name as dependencies is installed once, and kept for all runs after that.
These commands may be used while servers run.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(envListCommand(), envShowCommand(), envWarmCommand(), envGCCommand())
	return c
}

// envFlags are the flags of all commands on environments.
type envFlags struct {
	settingFlags
	asJSON bool
}

func (f *envFlags) add(c *cobra.Command) {
	f.settingFlags.add(c)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
}

func envListCommand() *cobra.Command {
	var flags envFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List the installed sets of packages, those used last first",
		Args:  noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.withIndex(c, func(index dependency.Index) error {
				list, err := environments(c.Context(), index)
				if err != nil {
					return err
				}
				slices.SortStableFunc(list, func(a, b core.Environment) int { return b.Used.Compare(a.Used) })
				return flags.printAll(c.OutOrStdout(), list)
			})
		},
	}
	flags.add(c)
	return c
}

func envShowCommand() *cobra.Command {
	var flags envFlags
	c := &cobra.Command{
		Use:     "show KEY",
		Short:   "Show one installed set of packages, with its lock",
		Long:    "Shows what was asked for and what was installed. The beginning of a key is enough, if it is the only one.",
		Example: "  boxwright env show 3f2a9c",
		Args:    exactlyOne("KEY", "boxwright env list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.withIndex(c, func(index dependency.Index) error {
				e, err := findEnvironment(c.Context(), index, args[0])
				if err != nil {
					return err
				}
				if flags.asJSON {
					return writeJSON(c.OutOrStdout(), shownOf(e))
				}
				printEnvironment(c.OutOrStdout(), e)
				return nil
			})
		},
	}
	flags.add(c)
	return c
}

// exactlyOne refuses a command without its argument, or with more; where says what tells which there are.
func exactlyOne(name, where string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return core.Errorf(core.ErrInvalid, "%s needs one %s, not %d", c.CommandPath(), name, len(args)).WithHint("%s tells which there are", where)
	}
}

// withIndex opens the index of the settings, which needs neither an engine nor a plugin.
func (f *envFlags) withIndex(c *cobra.Command, use func(dependency.Index) error) error {
	settings, err := f.load(c)
	if err != nil {
		return err
	}
	index, database, err := openIndex(settings.Storage)
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }() // what was to be kept is kept
	return use(index)
}

func openIndex(c config.Storage) (dependency.Index, io.Closer, error) {
	if err := lasts(c); err != nil {
		return nil, nil, err
	}
	database, err := openDatabase(c, "")
	if err != nil {
		return nil, nil, err
	}
	return database.Environments(), database, nil
}

// lasts refuses an index that other processes cannot see.
func lasts(c config.Storage) error {
	if c.Environments != inMemory {
		return nil
	}
	return core.Errorf(core.ErrUnsupported, "storage.environments is memory: each server keeps the index of installed packages for itself").
		WithHint("set storage.environments to disk")
}

// environments lists those that runs may use.
func environments(ctx context.Context, index dependency.Index) ([]core.Environment, error) {
	list, err := index.List(ctx)
	return slices.DeleteFunc(list, core.Environment.IsRemains), err
}

// findEnvironment returns the environment whose key begins so.
func findEnvironment(ctx context.Context, index dependency.Index, prefix string) (core.Environment, error) {
	list, err := environments(ctx, index)
	if err != nil {
		return core.Environment{}, err
	}
	list = slices.DeleteFunc(list, func(e core.Environment) bool { return !strings.HasPrefix(e.Key, prefix) })
	switch {
	case len(list) == 0:
		return core.Environment{}, core.Errorf(core.ErrNotFound, "no installed set of packages has a key that begins with %.150q", prefix).
			WithHint("boxwright env list tells which there are")
	case len(list) > 1 && list[0].Key != prefix:
		return core.Environment{}, core.Errorf(core.ErrInvalid, "%d installed sets of packages have keys that begin with %.150q", len(list), prefix).
			WithHint("write more of the key")
	}
	return index.Get(ctx, list[0].Key)
}

// shown is an environment for programs. Where it is stays untold: who knows that can enter it.
type shown struct {
	Key      string        `json:"key"`
	Packages []string      `json:"packages"`
	Backend  string        `json:"backend"`
	Language core.Language `json:"language,omitempty"`
	Size     int64         `json:"size_bytes"`
	Created  time.Time     `json:"created"`
	Used     time.Time     `json:"used,omitzero"`
	Lock     string        `json:"lock,omitempty"`
	Report   string        `json:"report,omitempty"`
}

// shownOf makes the texts harmless: they are from a box.
func shownOf(e core.Environment) shown {
	return shown{
		Key: e.Key, Packages: append([]string{}, e.Names...), Backend: e.Backend, Language: cmp.Or(e.Language, core.LanguagePython),
		Size: e.Size, Created: e.Created.UTC(), Used: e.Used.UTC(), Lock: core.PlainText(e.Lock), Report: core.PlainText(e.Report),
	}
}
