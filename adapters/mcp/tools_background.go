package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// backgroundTools come back to runs that outlived their call, or that ended a while ago.
func (s *Server) backgroundTools() []tool {
	return []tool{s.getRun(), s.readOutput(), s.sendInput(), s.cancelRun(), s.listRuns()}
}

func runParam() param {
	return textParam("run_id", "the run, as the answer that began it named it").mandatory()
}

func (s *Server) getRun() tool {
	wait := param{
		name:        "wait_seconds",
		description: fmt.Sprintf("wait so long for the end of the run; at most %g", s.options.SyncLimit.Seconds()),
		schema:      map[string]any{"type": "number", "minimum": 0, "maximum": s.options.SyncLimit.Seconds(), "default": 0},
	}
	return tool{
		name: "get_run", title: "See how a run goes",
		description: "Returns the result of a run, if it has ended, or status running with what it has printed so far. Results are kept for a while, also when the server is restarted.",
		params:      []param{runParam(), wait}, output: runOutputSchema(), readOnly: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			id, err := c.optional("run_id")
			if err != nil {
				return nil, err
			}
			wait, err := c.seconds("wait_seconds")
			if err != nil {
				return nil, err
			}
			if wait == nil {
				wait = new(time.Duration)
			}
			record, err := s.cases.GetRun(ctx, c.owner, id, *wait)
			return s.answer(ctx, record, err)
		},
	}
}

// maxPiece is how many bytes of output one answer of read_output has at most, and usualPiece when none is asked for;
// the least holds any character, so that reading on goes on.
const (
	maxPiece   = 256 << 10
	usualPiece = 32 << 10
	leastPiece = 4
)

func (s *Server) readOutput() tool {
	whole := func(name, description string, least, usual int) param {
		return param{name: name, description: description, schema: map[string]any{"type": "integer", "minimum": least, "default": usual}}
	}
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	return tool{
		name: "read_output", title: "Read more of a run's output",
		description: "Reads a part of what a run has printed, by byte offset: while it runs, or later. Read on from next_offset; ended says whether more may come.",
		params: []param{
			runParam(),
			{name: "stream", description: "which output", schema: map[string]any{"type": "string", "enum": []core.Stream{core.Stdout, core.Stderr}, "default": core.Stdout}},
			whole("offset", "bytes to skip", 0, 0),
			whole("limit", fmt.Sprintf("bytes to return, %d to %d", leastPiece, maxPiece), leastPiece, usualPiece),
		},
		output: map[string]any{"type": "object", "properties": map[string]any{
			"text": text, "offset": number, "next_offset": number, "total_bytes": number,
			"kept_bytes": map[string]any{"type": "integer", "description": "how many bytes from the beginning can be read; what was printed after them is gone"},
			"ended":      map[string]any{"type": "boolean"},
		}},
		readOnly: true,
		handle:   s.output,
	}
}

func (s *Server) output(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	id, err := c.optional("run_id")
	if err != nil {
		return nil, err
	}
	name, err := c.optional("stream")
	if err != nil {
		return nil, err
	}
	stream := core.Stream(name)
	switch stream {
	case "":
		stream = core.Stdout
	case core.Stdout, core.Stderr:
	default:
		return nil, core.Errorf(core.ErrInvalid, "there is no stream %q", clip(name, 40)).WithHint("the streams are stdout and stderr")
	}
	offset, err := c.whole("offset", 0)
	if err != nil {
		return nil, err
	}
	limit, err := c.whole("limit", usualPiece)
	if err != nil {
		return nil, err
	}
	if limit < leastPiece || limit > maxPiece {
		return nil, core.Errorf(core.ErrInvalid, "limit is %d; it must be from %d to %d", limit, leastPiece, maxPiece)
	}
	piece, err := s.cases.ReadOutput(ctx, c.owner, id, stream, offset, limit)
	if err != nil {
		return nil, err
	}
	return pieceResult(piece), nil
}

// pieceResult leaves a character that the piece's end cuts to the next piece.
func pieceResult(piece core.OutputPiece) *mcp.CallToolResult {
	data := piece.Data
	if next := piece.Offset + int64(len(data)); next < piece.Total || !piece.Ended {
		data = wholeRunes(data)
	}
	next := piece.Offset + int64(len(data))
	text := core.PlainText(string(data))
	state := "more may come"
	if piece.Ended {
		state = "the run has ended"
	}
	if piece.Kept < piece.Total {
		state += fmt.Sprintf("; what was printed after the first %d bytes is gone", piece.Kept)
	}
	head := fmt.Sprintf("bytes %d to %d of %d; %s\n\n", piece.Offset, next, piece.Total, state)
	return structuredResult(head+text, map[string]any{
		"text": text, "offset": piece.Offset, "next_offset": next, "total_bytes": piece.Total, "kept_bytes": piece.Kept, "ended": piece.Ended,
	})
}

func (s *Server) sendInput() tool {
	return tool{
		name: "send_input", title: "Send input to a run",
		description: "Sends text to the standard input of a run that was started with open_stdin. A program that reads lines needs the line's end in text.",
		params: []param{
			runParam(), textParam("text", "what the program reads next"),
			flagParam("end", "nothing more comes after it: the program sees the end of its input"),
		},
		output: map[string]any{"type": "object", "properties": map[string]any{"sent_bytes": map[string]any{
			"type": "integer", "description": "of text in UTF-8; fewer than it has if the program does not read",
		}}},
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			id, err := c.optional("run_id")
			if err != nil {
				return nil, err
			}
			text, err := c.optional("text")
			if err != nil {
				return nil, err
			}
			end, err := c.flag("end")
			if err != nil {
				return nil, err
			}
			taken, err := s.cases.WriteStdin(ctx, c.owner, id, []byte(text), end)
			if err != nil {
				return nil, err
			}
			return sent(taken, int64(len(text)), end), nil
		},
	}
}

// sent tells how much of an input the program took.
func sent(taken, all int64, end bool) *mcp.CallToolResult {
	told := fmt.Sprintf("%s sent.", byteCount(taken))
	if taken < all {
		told = fmt.Sprintf("Only the first %s of %d were sent: the program does not read its input, and there is no room for the others. "+
			"Send them again once it reads", byteCount(taken), all)
		if end {
			told += "; its input has not been ended"
		}
		told += "."
	}
	return structuredResult(told, map[string]any{"sent_bytes": taken})
}

func (s *Server) cancelRun() tool {
	return tool{
		name: "cancel_run", title: "Cancel a run",
		description: "Ends a run and everything that it started, and returns its result. A run that has ended already is returned as it is.",
		params:      []param{runParam()}, output: runOutputSchema(), destructive: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			id, err := c.optional("run_id")
			if err != nil {
				return nil, err
			}
			record, err := s.cases.CancelRun(ctx, c.owner, id)
			return s.answer(ctx, record, err)
		},
	}
}

type runListing struct {
	RunID    string `json:"run_id"`
	Status   string `json:"status"`
	Language string `json:"language,omitempty"`
	Sandbox  string `json:"sandbox_id,omitempty"`
	Started  string `json:"started"`
	Ended    string `json:"ended,omitempty"`
	Code     string `json:"code"`
}

func listingOf(r core.Run) runListing {
	status := string(r.State)
	if r.State == core.RunEnded {
		status = string(r.Record.Status)
		if r.Failure.Kind != "" {
			status = "not run: " + string(r.Failure.Kind)
		}
	}
	return runListing{
		RunID: r.ID, Status: status, Language: r.Language, Sandbox: r.Session,
		Started: stamp(r.Started), Ended: stamp(r.Ended), Code: core.PlainText(r.Summary),
	}
}

// maxListed bounds a list of runs.
const maxListed = 50

func (s *Server) listRuns() tool {
	text := map[string]any{"type": "string"}
	items := map[string]any{"type": "object", "properties": map[string]any{
		"run_id": text, "status": text, "language": text, "sandbox_id": text, "started": text, "ended": text,
		"code": map[string]any{"type": "string", "description": "its first line"},
	}}
	return tool{
		name: "list_runs", title: "List runs",
		description: fmt.Sprintf("Lists your latest runs (at most %d), under way and ended, the latest first.", maxListed),
		output: map[string]any{"type": "object", "properties": map[string]any{
			"runs": map[string]any{"type": "array", "items": items},
		}},
		readOnly: true,
		handle: func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
			all, err := s.cases.Runs(ctx, c.owner, time.Time{}, maxListed)
			if err != nil {
				return nil, err
			}
			results, lines := []runListing{}, []string{}
			for _, run := range all {
				l := listingOf(run)
				results = append(results, l)
				lines = append(lines, fmt.Sprintf("- %s %s, %s: %s", l.RunID, l.Status, l.Started, l.Code))
			}
			if len(lines) == 0 {
				lines = []string{"There are no runs."}
			}
			return structuredResult(strings.Join(lines, "\n"), map[string]any{"runs": results}), nil
		},
	}
}
