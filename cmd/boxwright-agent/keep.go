package main

import (
	"encoding/json"
	"flag"
	"io"
	"math"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/keep"
	"github.com/boxwright/boxwright/core"
)

// keepPackages copies what was installed to where it stays, and says so in one line of JSON, or why not.
func keepPackages(args []string, answers io.Writer) error {
	return copyTree("keep", keep.Copy, args, answers)
}

// addBytecode adds the bytecode of what was kept.
func addBytecode(args []string, answers io.Writer) error {
	return copyTree("add", keep.AddBytecode, args, answers)
}

func copyTree(name string, do func(source, target string, l keep.Limits) (keep.Kept, error), args []string, answers io.Writer) error {
	limits := keep.Limits{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Int64Var(&limits.Bytes, "max-bytes", math.MaxInt64-1, "`bytes` that may be kept")
	flags.Int64Var(&limits.Entries, "max-entries", math.MaxInt64-1, "`number` of files, folders and links that may be kept")
	if err := flags.Parse(args); err != nil {
		return core.Errorf(core.ErrInvalid, "%w", err)
	}
	if flags.NArg() != 2 {
		return core.Errorf(core.ErrInvalid, "%s needs a source and a target", name)
	}
	kept, err := do(flags.Arg(0), flags.Arg(1), limits)
	return answer(answers, core.Kept{Bytes: kept.Bytes, Entries: kept.Entries}, err)
}

// dropPackages removes what keepPackages made, or left.
func dropPackages(args []string, answers io.Writer) error {
	return answer(answers, core.Kept{}, keep.Drop(args...))
}

// answer is for the host, which asked by a run. A failure is an answer.
func answer(answers io.Writer, kept core.Kept, err error) error {
	kept.Failure = core.FailureOf(err)
	text, err := json.Marshal(kept)
	if err == nil {
		_, err = answers.Write(append(text, '\n'))
	}
	return err
}
