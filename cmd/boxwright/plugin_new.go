package main

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

//go:embed plugin_template
var pluginTemplate embed.FS

// newPlugin is what the templates are filled with.
type newPlugin struct {
	Name    string // of the backend
	Module  string // of the Go module
	Version string // of Boxwright's module
	Replace string // the folder of Boxwright's sources; "" is the released module
	Image   string // for its tests
}

func pluginNewCommand() *cobra.Command {
	var p newPlugin
	var folder string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin a backend plugin: a Go module with marked places to fill in",
		Long: `Writes a Go module for the backend NAME: a main, a backend whose methods are to be
filled in, a test that runs the suite of the backend port, and a README. It compiles at once;
"boxwright plugin verify" says how far it is.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return core.Errorf(core.ErrInvalid, "new needs the name of one backend").WithHint("see boxwright plugin new --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p.Name, p.Version = args[0], moduleVersion(version)
			if folder == "" {
				folder = pluginPrefix + p.Name
			}
			if err := p.write(folder); err != nil {
				return err
			}
			say(c.OutOrStdout(), "wrote %s; next:\n\n", folder)
			say(c.OutOrStdout(), "  cd %s\n  go mod tidy\n  go build -o %s .\n  boxwright plugin verify ./%s\n", folder, pluginPrefix+p.Name, pluginPrefix+p.Name)
			return nil
		},
	}
	c.Flags().StringVar(&folder, "dir", "", "the folder to make; default boxwright-backend-NAME")
	c.Flags().StringVar(&p.Module, "module", "", "the name of the Go module; default boxwright-backend-NAME")
	c.Flags().StringVar(&p.Replace, "replace", "", "a folder with Boxwright's sources, to build with instead of a release")
	c.Flags().StringVar(&p.Image, "image", app.FallbackImage, "the image of the test's boxes")
	return c
}

// moduleVersion is the version of Boxwright's module that belongs to this program.
func moduleVersion(own string) string {
	if regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(own) {
		return own
	}
	return unreleased
}

// write makes the folder, whole or not at all.
func (p newPlugin) write(folder string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`).MatchString(p.Name) {
		return core.Errorf(core.ErrInvalid, "%q is not a name of a backend", p.Name).WithHint("use lower-case letters, digits and hyphens")
	}
	if p.Module == "" {
		p.Module = pluginPrefix + p.Name
	}
	if err := p.checkSources(); err != nil {
		return err
	}
	files, err := template.ParseFS(pluginTemplate, "plugin_template/*.tmpl")
	if err != nil {
		return core.Errorf(core.ErrInternal, "the templates cannot be read: %w", err)
	}
	err = os.Mkdir(folder, 0o755) //nolint:gosec // sources are nobody's secret
	if os.IsExist(err) {
		return core.Errorf(core.ErrInvalid, "%s exists already", folder).WithHint("name another folder with --dir")
	}
	if err != nil {
		return core.Errorf(core.ErrInvalid, "the folder cannot be made: %w", err)
	}
	if err := p.fill(folder, files); err != nil {
		_ = os.RemoveAll(folder) // it was made a moment ago
		return core.Errorf(core.ErrInternal, "the plugin cannot be written: %w", err)
	}
	return nil
}

// unreleased is the version of a module that is nowhere to be had.
const unreleased = "v0.0.0"

// checkSources finds out what the plugin could be built with: the release that this program is of, or sources.
func (p *newPlugin) checkSources() error {
	if p.Replace == "" {
		if p.Version == unreleased {
			return core.Errorf(core.ErrInvalid, "this program is not of a release, so a plugin has to be built with its sources").
				WithHint("name their folder with --replace")
		}
		return nil
	}
	folder, err := filepath.Abs(p.Replace)
	if err != nil {
		return core.Errorf(core.ErrInternal, "the working directory cannot be found: %w", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
		return core.Errorf(core.ErrInvalid, "--replace %s is not a folder of Boxwright's sources: it has no go.mod", p.Replace)
	}
	p.Replace = folder
	return nil
}

func (p newPlugin) fill(folder string, files *template.Template) error {
	names, err := fs.Glob(pluginTemplate, "plugin_template/*.tmpl")
	if err != nil {
		return err
	}
	for _, name := range names {
		base := filepath.Base(name)
		var text strings.Builder
		if err := files.ExecuteTemplate(&text, base, p); err != nil {
			return err
		}
		path := filepath.Join(folder, strings.TrimSuffix(base, ".tmpl"))
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil { //nolint:gosec // sources are nobody's secret
			return err
		}
	}
	return nil
}
