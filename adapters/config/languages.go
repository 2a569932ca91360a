package config

import (
	"maps"
	"slices"

	"github.com/boxwright/boxwright/core"
)

// Language says how programs in one language are run.
type Language struct {
	// Image is the image of runs that name none; it may always be asked for in this language. Empty: that of
	// Python.
	Image string `koanf:"image" empty:"falls back"`
	// Command is the program and its arguments. One of them is {file} with the ending that the code's file is
	// to have: {file}.rb. Empty: that of the language that Boxwright knows by this name.
	Command []string `koanf:"command" empty:"falls back"`
	// Session is the command in a session, if it is another.
	Session []string `koanf:"session" empty:"falls back"`
}

// Interpreters are the languages that Boxwright knows, as the operator changed them, and the operator's own.
func (c Config) Interpreters() core.Interpreters {
	all := core.DefaultInterpreters()
	for name, set := range c.Languages {
		known := all[core.Language(name)]
		if set.Image != "" {
			known.Image = set.Image
		}
		if len(set.Command) > 0 {
			known.Command, known.Session = set.Command, nil
		}
		if len(set.Session) > 0 {
			known.Session = set.Session
		}
		all[core.Language(name)] = known
	}
	return all
}

func (v *validator) languages(c Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Languages)) {
		if name == string(core.LanguagePython) {
			v.check(false, "languages.python cannot be set: Python has an interpreter of its own")
			continue
		}
		v.under("languages."+name, c.Interpreters()[core.Language(name)].Validate())
		if image := c.Languages[name].Image; image != "" {
			_, err := core.NormalizeImage(image)
			v.under("languages."+name+".image", err)
		}
	}
}
