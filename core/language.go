package core

import (
	"maps"
	"slices"
	"strings"
)

// Language is a language that code is in.
type Language string

// LanguagePython is Python 3, which has an interpreter of its own that waits in every box.
const LanguagePython Language = "python"

// Interpreter says how a program in some language other than Python is run.
type Interpreter struct {
	Image   string   // of runs that name none; "" is that of Python
	Command []string // the program and its arguments, one of which is FilePlace with the file's ending
	// Session is the command in a session, when it differs: it may keep what is to stay in ShellState.
	Session []string
}

const (
	// FilePlace begins the argument that becomes the code's file: "{file}.mjs".
	FilePlace = "{file}"
	// ShellState is where a session's shell keeps its variables, in the box.
	ShellState = GuestTmp + "/.boxwright/shell"
)

// Interpreters are the languages besides Python that code may be in.
type Interpreters map[Language]Interpreter

// DefaultInterpreters are what an operator gets who says nothing.
func DefaultInterpreters() Interpreters {
	return Interpreters{
		"bash":       {Command: []string{"bash", FilePlace + ".sh"}, Session: []string{"bash", "-c", bashSession, ShellState, FilePlace + ".sh"}},
		"sh":         {Command: []string{"sh", FilePlace + ".sh"}},
		"javascript": {Image: "node:22-slim", Command: []string{"node", FilePlace + ".mjs"}},
		"typescript": {Image: "node:22-slim", Command: []string{"node", "--experimental-strip-types", "--disable-warning=ExperimentalWarning", FilePlace + ".mts"}},
	}
}

// bashSession takes up what the last program of the session left, runs the file, and keeps what there is
// then: variables, functions, aliases, options and the working directory. Some variables are the shell's
// own and cannot be set; that is no error. One would change $0.
const bashSession = `__file=$1; shift
__keep() {
  unset __file
  mkdir -p "${0%/*}" && {
    declare -p | grep -vE '^declare -[a-zA-Z]*r|^declare -- BASH_ARGV0='; declare -f; alias -p; shopt -p; set +o
    printf 'cd %q\n' "$PWD"
  } > "$0.new" 2>/dev/null && mv "$0.new" "$0"
}
if [ -r "$0" ]; then . "$0" 2>/dev/null; fi
trap __keep EXIT
. "$__file"`

// Names lists all languages, Python first.
func (i Interpreters) Names() []Language {
	return append([]Language{LanguagePython}, slices.Sorted(maps.Keys(i))...)
}

// Find returns the language of that name; "" is Python. An interpreter without a command is Python's own.
func (i Interpreters) Find(name string) (Language, Interpreter, error) {
	language := Language(strings.ToLower(name))
	if language == "" || language == LanguagePython {
		return LanguagePython, Interpreter{}, nil
	}
	if found, ok := i[language]; ok {
		return language, found, nil
	}
	names := make([]string, 0, len(i)+1)
	for _, n := range i.Names() {
		names = append(names, string(n))
	}
	return "", Interpreter{}, Errorf(ErrInvalid, "there is no language %q", shorten(name)).
		WithHint("the languages are: %s", strings.Join(names, ", "))
}

// Validate reports what keeps an interpreter from ever running anything.
func (i Interpreter) Validate() error {
	for _, command := range [][]string{i.Command, i.Session} {
		if len(command) == 0 {
			continue
		}
		places := 0
		for _, argument := range command {
			if strings.HasPrefix(argument, FilePlace) {
				places++
			}
		}
		if places != 1 || strings.HasPrefix(command[0], FilePlace) {
			return Errorf(ErrInvalid, "the command %q must have one argument after the first that begins with %s", command, FilePlace)
		}
	}
	if len(i.Command) == 0 {
		return Errorf(ErrInvalid, "it has no command").WithHint(`such as ["ruby", "%s.rb"]`, FilePlace)
	}
	return nil
}

// Spec is what runs code in the language, in a session or not.
func (i Interpreter) Spec(inSession bool) (argv []string, codeFile string) {
	argv = i.Command
	if inSession && len(i.Session) > 0 {
		argv = i.Session
	}
	for _, argument := range argv {
		if strings.HasPrefix(argument, FilePlace) {
			codeFile = argument
		}
	}
	return slices.Clone(argv), codeFile
}
