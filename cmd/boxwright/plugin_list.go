package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// listTime bounds how long one plugin may take to tell about itself.
const listTime = 20 * time.Second

// listed is one plugin and how it is.
type listed struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	Engine  string `json:"engine,omitempty"`
	Healthy bool   `json:"healthy"`
	// Unenforced are the limits that do not hold there.
	Unenforced []core.Limit `json:"unenforced,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
	Problem    string       `json:"problem,omitempty"`
	Hint       string       `json:"hint,omitempty"`
}

func pluginListCommand() *cobra.Command {
	var file, folder string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the backend plugins beside this program and in the settings",
		Long: `Starts every backend plugin that lies beside this program or that the settings name,
and prints its version, its engine, and whether it works or why not.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := loadSettings(file)
			if err != nil {
				return err
			}
			if folder == "" {
				self, err := os.Executable()
				if err != nil {
					return core.Errorf(core.ErrInternal, "this program cannot find its own executable: %w", err)
				}
				folder = filepath.Dir(self)
			}
			found, err := findPlugins(folder, settings)
			if err != nil {
				return err
			}
			plugins := askAll(c.Context(), found)
			if asJSON {
				return writeJSON(c.OutOrStdout(), plugins)
			}
			return printPlugins(c.OutOrStdout(), plugins)
		},
	}
	c.Flags().StringVar(&file, "config", "", "settings file; default $XDG_CONFIG_HOME/boxwright/config.yaml")
	c.Flags().StringVar(&folder, "dir", "", "the folder to look in; default this program's own")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON list")
	return c
}

func loadSettings(file string) (config.Config, error) {
	source := config.Source{File: file, Explicit: file != "", Environ: os.Environ()}
	if file == "" {
		source.File, source.Explicit = config.Find(source.Environ)
	}
	return config.Load(source)
}

// findPlugins returns how the server would start each plugin, by name.
func findPlugins(folder string, c config.Config) ([]pluginhost.Config, error) {
	names := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(folder, pluginPrefix+"*")) // the pattern is well-formed
	for _, path := range files {
		names[pluginName(path)] = true
	}
	for name := range c.Backends {
		names[name] = true
	}
	var found []pluginhost.Config
	for _, name := range slices.Sorted(maps.Keys(names)) {
		plugin, err := pluginConfig(c, name)
		if err != nil {
			return nil, err
		}
		plugin.Path = cmp.Or(plugin.Path, filepath.Join(folder, pluginPrefix+plugin.Plugin))
		plugin.Instance, plugin.Server = executiontest.NewInstance(), "list"
		found = append(found, plugin)
	}
	return found, nil
}

// askAll asks all plugins at the same time.
func askAll(ctx context.Context, all []pluginhost.Config) []listed {
	plugins := make([]listed, len(all))
	var asking sync.WaitGroup
	for i, cfg := range all {
		asking.Go(func() { plugins[i] = askPlugin(ctx, cfg) })
	}
	asking.Wait()
	return plugins
}

func askPlugin(ctx context.Context, cfg pluginhost.Config) listed {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	plugin := pluginhost.Open(cfg)
	defer func() { _ = plugin.Close(ctx) }() // it is killed if it does not leave
	found := listed{Name: cfg.Name, Path: cfg.Path}
	info, err := plugin.Info(ctx)
	if err != nil {
		found.Problem, found.Hint = core.MessageOf(err), core.HintOf(err)
		return found
	}
	found.Healthy, found.Version, found.Warnings = true, info.Version, info.Warnings
	for _, limit := range core.AllLimits() {
		if how := info.Limits[limit]; how == core.EnforcedNot || how == "" {
			found.Unenforced = append(found.Unenforced, limit)
		}
	}
	found.Engine = strings.TrimSpace(info.Engine + " " + info.EngineVersion)
	return found
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // it is for people and scripts
	if err := encoder.Encode(v); err != nil {
		return core.Errorf(core.ErrInternal, "the output cannot be written: %w", err)
	}
	return nil
}

func printPlugins(w io.Writer, plugins []listed) error {
	if len(plugins) == 0 {
		say(w, "there is no backend plugin beside this program, and the settings name none\n")
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "NAME\tVERSION\tENGINE\tSTATE\tPATH\n")
	for _, p := range plugins {
		state := "works"
		if !p.Healthy {
			state = "fails"
		} else if len(p.Unenforced) > 0 {
			state = "works, weaker"
		}
		say(table, "%s\t%s\t%s\t%s\t%s\n", p.Name, orDash(p.Version), orDash(p.Engine), state, p.Path)
	}
	_ = table.Flush() // as say
	for _, p := range plugins {
		if !p.Healthy {
			say(w, "%s: %s%s\n", p.Name, p.Problem, inBrackets(p.Hint))
		}
		for _, limit := range p.Unenforced {
			say(w, "%s: the %s limit does not hold there (runs are refused unless limits.unenforced is warn)\n", p.Name, limit)
		}
		for _, warning := range p.Warnings {
			say(w, "%s: %s\n", p.Name, warning)
		}
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func inBrackets(hint string) string {
	if hint == "" {
		return ""
	}
	return " (" + hint + ")"
}
