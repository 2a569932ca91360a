package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// Exit codes of verify besides 0, which says that no sentence is broken.
const (
	exitBroken      = 1
	exitNotVerified = 2
)

// verifyFlags are the flags of plugin verify.
type verifyFlags struct {
	image    string
	missing  string
	settings string
	agents   string
	env      []string
	timeout  time.Duration
	asJSON   bool
	verbose  bool
}

func pluginVerifyCommand() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify PATH",
		Short: "Check a backend plugin against every sentence of the backend port",
		Long: `Starts a backend plugin as the server would, has it make and remove boxes, and says
of every sentence of the backend port whether it is kept, broken or not claimed. All that
is made is labelled as an installation of its own, and removed.

Exit status: 0 no sentence is broken, 1 some is, 2 the plugin could not be verified to the end.`,
		Example: `  boxwright plugin verify ./boxwright-backend-mine --image host
  boxwright plugin verify docker --settings '{"runtime": "runsc"}' --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return core.Errorf(core.ErrInvalid, "verify needs the path of one plugin").WithHint("see boxwright plugin verify --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return verifyPlugin(c.Context(), args[0], f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&f.image, "image", "", "the image of the boxes; default the plugin's own, or "+app.FallbackImage)
	c.Flags().StringVar(&f.missing, "missing-image", "", "the name of an image that no registry has")
	c.Flags().StringVar(&f.settings, "settings", "", "the plugin's settings: a file, or an object as JSON")
	c.Flags().StringVar(&f.agents, "agents", "", "the folder of the boxwright-agent-linux-* files; default beside this program")
	c.Flags().StringArrayVar(&f.env, "env", nil, "a variable that the plugin gets besides the usual ones: NAME or NAME=VALUE; may be repeated")
	c.Flags().DurationVar(&f.timeout, "timeout", 15*time.Minute, "how long all of it may take")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "print what the plugin logs to standard error")
	return c
}

// verifyPlugin writes the report to out. Its error carries the exit code.
func verifyPlugin(ctx context.Context, path string, f verifyFlags, out, log io.Writer) error {
	whole, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	cfg, err := f.pluginConfig(path, log)
	if err != nil {
		return exitError{err, exitNotVerified}
	}
	plugin := pluginhost.Open(cfg)
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = plugin.Close(closing) // it is killed if it does not leave
	}()
	r, err := begin(whole, plugin, f, cfg)
	if err != nil {
		return exitError{err, exitNotVerified}
	}
	return r.finish(whole, out, f.asJSON)
}

// begin asks the plugin what it is, and makes the image ready.
func begin(ctx context.Context, plugin *pluginhost.Plugin, f verifyFlags, cfg pluginhost.Config) (*verification, error) {
	info, err := plugin.Info(ctx)
	if err != nil {
		return nil, err
	}
	image := cmp.Or(f.image, info.DefaultImage, app.FallbackImage)
	if _, err := plugin.EnsureImage(ctx, image, core.PullMissing, nil); err != nil {
		return nil, core.Errorf(core.KindOf(err), "the boxes' image cannot be had: %w", err).WithHint("name another one with --image")
	}
	env, err := sdktest.Env(ctx, plugin, image, cfg.Instance)
	if err != nil {
		return nil, err
	}
	env.Hooks.MissingImage = f.missing
	return newVerification(env, info, cfg.Path), nil
}

// pluginConfig is how the server would start it, as an installation that nobody else is.
func (f verifyFlags) pluginConfig(path string, log io.Writer) (pluginhost.Config, error) {
	settings, err := readSettings(f.settings)
	if err != nil {
		return pluginhost.Config{}, err
	}
	agents, err := f.findAgents()
	if err != nil {
		return pluginhost.Config{}, err
	}
	instance := executiontest.NewInstance()
	cfg := pluginhost.Config{
		Name: pluginName(path), Path: path, Settings: settings, Agents: agents,
		EnvAllow: append(pluginhost.DefaultEnv(), f.env...), Instance: instance, Server: instance,
	}
	if f.verbose {
		cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	// A bare name is that of a backend beside the server, as in the config.
	if _, err := os.Stat(path); err != nil && filepath.Base(path) == path {
		cfg.Path = ""
		return cfg, nil
	}
	if err := checkExecutable(path); err != nil {
		return cfg, err
	}
	if cfg.Path, err = filepath.Abs(path); err != nil {
		return cfg, core.Errorf(core.ErrInternal, "the working directory cannot be found: %w", err)
	}
	return cfg, nil
}

func (f verifyFlags) findAgents() (map[string]string, error) {
	if f.agents == "" {
		return findAgents()
	}
	return sdktest.Agents(f.agents)
}

const pluginPrefix = "boxwright-backend-"

// pluginName is the backend's name by its file.
// checkExecutable looks before the plugin host does, whose advice is for servers.
func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return core.Errorf(core.ErrInvalid, "there is no file %s", path).
			WithHint("verify takes the path of an executable, or the name of a backend beside this program")
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return core.Errorf(core.ErrInvalid, "%s is not executable", path).WithHint("build the plugin, or chmod +x %s", path)
	}
	return nil
}

func pluginName(path string) string { return strings.TrimPrefix(filepath.Base(path), pluginPrefix) }

// readSettings reads a plugin's section of the config: JSON as it is, or a file of YAML.
func readSettings(text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		var err error
		if raw, err = os.ReadFile(text); err != nil { //nolint:gosec // its user names it
			return nil, core.Errorf(core.ErrInvalid, "the settings cannot be read: %w", err).
				WithHint("--settings takes a file, or an object such as '{\"host\": \"unix:///run/engine.sock\"}'")
		}
	}
	var settings map[string]any
	if err := yaml.Unmarshal(raw, &settings); err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the settings are no object: %w", err)
	}
	encoded, err := json.Marshal(settings)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "the settings cannot be passed on: %w", err)
	}
	return encoded, nil
}

// endedEarly says why ctx ended before the checks did.
func endedEarly(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Errorf(core.ErrTimeout, "verifying took too long").WithHint("give it more with --timeout")
	}
	return core.Errorf(core.ErrCancelled, "verifying was interrupted")
}
