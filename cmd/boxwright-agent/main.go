// Command boxwright-agent is the first process of every box. It runs programs, moves files and keeps
// the box clean for a host that reaches it through "boxwright-agent dial".
//
// It is not run by people: a backend puts it into a box and starts it there.
package main

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/preview"
	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/watch"
	"github.com/boxwright/boxwright/core"
)

// version is set when the program is linked.
var version = "dev"

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(os.Args[1:]); err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	name := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	switch name {
	case "serve":
		return serve(args)
	case "dial":
		return dial(os.Stdin, os.Stdout) //nolint:forbidigo // its stdout is the stream to the host
	case "preview":
		return renderPreview(args)
	case "keep":
		return keepPackages(args, os.Stdout) //nolint:forbidigo // its stdout is for the host that asked
	case "add":
		return addBytecode(args, os.Stdout) //nolint:forbidigo // its stdout is for the host that asked
	case "drop":
		return dropPackages(args, os.Stdout) //nolint:forbidigo // its stdout is for the host that asked
	case "inspect":
		return inspect(args, os.Stdout) //nolint:forbidigo // its stdout is for whoever asked
	case "version":
		_, err := io.WriteString(os.Stdout, version+"\n") //nolint:forbidigo // its stdout is for whoever asked
		return err
	}
	return core.Errorf(core.ErrInvalid, "there is no command %q", name).WithHint("serve, dial and version are")
}

func renderPreview(args []string) error {
	if len(args) != 1 {
		return core.Errorf(core.ErrInvalid, "preview needs a limit")
	}
	limit, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "preview needs a limit: %w", err)
	}
	return preview.Main(os.Stdin, limit, os.Stdout) //nolint:forbidigo // its stdout is a pipe to the agent
}

// options of serve.
type options struct {
	expires string
	preload string
	dialUID int
	stream  int  // a descriptor; -1 is none
	stdio   bool // standard input and output are a first stream
	bare    bool // no interpreter waits: nothing of the image is run
	bounds  watch.Bounds
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.expires, "expires", "", "`time` (RFC 3339) at which the box ends by itself")
	flags.StringVar(&o.preload, "preload", "", "comma-separated `modules` that Python programs find loaded")
	flags.IntVar(&o.dialUID, "dial-uid", core.DialUID, "`user` that may connect")
	flags.IntVar(&o.stream, "stream-fd", -1, "`descriptor` of a first stream, which needs no dial")
	flags.BoolVar(&o.stdio, "stream-stdio", false, "standard input and output are a first stream, which needs no dial")
	flags.BoolVar(&o.bare, "bare", false, "no interpreter waits: nothing of the image is run by itself")
	flags.Int64Var(&o.bounds.Memory, "max-memory", 0, "`bytes` that the box may use; 0 leaves that to the engine")
	flags.Int64Var(&o.bounds.Processes, "max-processes", 0, "`number` of processes and threads that may be; 0 leaves that to the engine")
	if err := flags.Parse(args); err != nil {
		return o, core.Errorf(core.ErrInvalid, "%w", err)
	}
	if flags.NArg() > 0 {
		return o, core.Errorf(core.ErrInvalid, "unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}
