// Command boxwright is the MCP server that runs unreviewed code in throw-away boxes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
)

// version is set by the linker.
var version = "dev"

// Exit codes: 0 is success, 1 a failure while serving, 2 wrong flags or settings.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Without this the runtime ends the process when somebody closes its stdout or stderr, and boxes
	// would be left: the transport notices, and a log that nobody reads is no reason to end.
	signal.Ignore(syscall.SIGPIPE)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := 0
	if err := command().ExecuteContext(ctx); err != nil {
		if _, told := errors.AsType[logged](err); !told {
			fmt.Fprintln(os.Stderr, "boxwright:", err)
		}
		code = exitCode(err)
	}
	stop()
	os.Exit(code)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "boxwright",
		Short: "Runs unreviewed code in throw-away boxes, for MCP clients",
		Long: `Runs unreviewed code in throw-away boxes, for MCP clients such as Claude Desktop.

Clients start "boxwright serve". Settings come from a YAML file, BOXWRIGHT_* variables
and flags; configs/full.yaml lists them all.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return core.Errorf(core.ErrInvalid, "there is no command %q", args[0]).WithHint("see boxwright --help")
			}
			return nil
		},
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return core.Errorf(core.ErrInvalid, "%s", err).WithHint("see %s --help", c.CommandPath())
	})
	root.AddCommand(serveCommand(), keysCommand(), usersCommand(), envCommand(), backupCommand(), pluginCommand(), versionCommand())
	root.SetOut(os.Stdout) //nolint:forbidigo // help and version are for a person; serve never prints
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(c *cobra.Command, _ []string) { c.Println("boxwright", version) },
	}
}

// settingFlags are flags that lead to settings.
type settingFlags struct {
	file     string
	settings map[string]settingFlag // by key
	set      []string
}

type settingFlag struct {
	name  string
	value *string
}

// add gives the command the flags for all settings.
func (f *settingFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "", "settings file; default $XDG_CONFIG_HOME/boxwright/config.yaml")
	c.Flags().StringArrayVar(&f.set, "set", nil, "any setting, such as --set limits.memory=1GiB; may be repeated")
}

func serveCommand() *cobra.Command {
	flags := settingFlags{settings: map[string]settingFlag{}}
	c := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"stdio"},
		Short:   "Serve MCP on standard input and output, or over HTTP",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.CalledAs() == "stdio" && !c.Flags().Changed("transport") {
				_ = c.Flags().Set("transport", config.TransportStdio)
			}
			settings, err := flags.load(c)
			if err != nil {
				return err
			}
			return serve(c.Context(), settings)
		},
	}
	flags.add(c)
	for _, f := range []struct{ name, key, usage string }{
		{"backend", "backend", "the backend that makes boxes: auto, docker, podman, gvisor, or one of the settings' own"},
		{"transport", "transport", "how clients talk to the server: stdio, http or both"},
		{"listen", "http.listen", "where to listen for HTTP, such as 127.0.0.1:8181"},
	} {
		flags.settings[f.key] = settingFlag{f.name, c.Flags().String(f.name, "", f.usage)}
	}
	return c
}

// load reads the settings from all their sources.
func (f settingFlags) load(c *cobra.Command) (config.Config, error) {
	source := config.Source{File: f.file, Explicit: f.file != "", Environ: os.Environ(), Flags: map[string]string{}}
	if source.File == "" {
		source.File, source.Explicit = config.Find(source.Environ)
	}
	for _, pair := range f.set {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return config.Config{}, core.Errorf(core.ErrInvalid, "--set %s has no value", pair).WithHint("write --set KEY=VALUE")
		}
		source.Flags[key] = value
	}
	for key, flag := range f.settings {
		if c.Flags().Changed(flag.name) {
			source.Flags[key] = *flag.value
		}
	}
	settings, err := config.Load(source)
	for _, name := range localFiles() {
		if _, statErr := os.Stat(name); statErr == nil && source.File == "" {
			settings.Notes = append(settings.Notes, name+" in the working directory is not read by itself; name it with --config "+name)
		}
	}
	return settings, err
}

// localFiles are where people put settings of a project.
func localFiles() []string { return []string{"boxwright.yaml", "boxwright.yml"} }
