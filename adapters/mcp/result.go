package mcp

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/core"
)

// runResult is the structured result of a run; all tools that run something share it.
type runResult struct {
	RunID         string             `json:"run_id,omitempty"`
	Status        core.Status        `json:"status"`
	ExitCode      *int               `json:"exit_code,omitempty"`
	Signal        string             `json:"signal,omitempty"`
	Stdout        string             `json:"stdout"`
	Stderr        string             `json:"stderr"`
	Result        string             `json:"result,omitempty"`
	Truncated     *truncated         `json:"truncated,omitempty"`
	DurationMS    map[string]float64 `json:"duration_ms,omitempty"`
	Files         []fileResult       `json:"files"`
	ArchiveURL    string             `json:"archive_url,omitempty"`
	Error         *errorResult       `json:"error,omitempty"`
	Warnings      []string           `json:"warnings,omitempty"`
	InstallLog    string             `json:"install_log,omitempty"`
	AutoInstalled []string           `json:"auto_installed,omitempty"`
	Hint          string             `json:"hint,omitempty"`
	SandboxID     string             `json:"sandbox_id,omitempty"`
	Backend       string             `json:"backend,omitempty"`
	Image         string             `json:"image,omitempty"`
}

// truncated counts the bytes that stdout and stderr lack.
type truncated struct {
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
}

type fileResult struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	MIMEType string `json:"mime_type"`
	URI      string `json:"uri"`
	URL      string `json:"url,omitempty"`
}

type errorResult struct {
	Type    core.Kind `json:"type"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`

	RetryAfter float64 `json:"retry_after,omitempty"` // seconds
}

// runOutputSchema describes runResult to clients.
func runOutputSchema() map[string]any {
	text, number := textSchema, map[string]any{"type": "number"}
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"run_id": text("names this run, also in the URIs of its files"),
			"status": map[string]any{
				"type": "string",
				"enum": []string{"ok", "failed", "timed_out", "cancelled", "oom_killed", "running"},
			},
			"exit_code": map[string]any{"type": "integer", "description": "0 is success; 128+n: ended by signal n"},
			"signal":    text("the signal that ended the program, such as SIGKILL"),
			"stdout":    text("what the program printed; head and tail if it was long"),
			"stderr":    text("what it printed as errors or warnings; not by itself a failure"),
			"result":    text("what the code showed: the value of its last expression, and what display() was given"),
			"truncated": map[string]any{
				"type":        "object",
				"description": "bytes left out of stdout and stderr; the full text is among the files",
				"properties":  map[string]any{"stdout_bytes": number, "stderr_bytes": number},
			},
			"duration_ms": map[string]any{
				"type":                 "object",
				"description":          "milliseconds by phase: queue, image, dependencies, box, run, collect; and total",
				"additionalProperties": number,
			},
			"files": filesSchema(),
			"error": map[string]any{
				"type":        "object",
				"description": "why the program could not be run; absent when it ran, however it ended",
				"properties": map[string]any{
					"type": text("kind"), "message": text("what is wrong"), "hint": text("what to do next"),
					"retry_after": map[string]any{"type": "number", "description": "when to try once more, in seconds; the server is busy until then"},
				},
				"required": []string{"type", "message"},
			},
			"warnings":       map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
			"install_log":    text("last lines of the installer, when packages were installed for this run"),
			"auto_installed": listOfTexts("packages that the code lacked: they were installed, and it ran again from the start"),
			"hint":           text("what to do about a program that failed, where that is known"),
			"sandbox_id":     text("the sandbox it ran in; absent when it had a box of its own"),
			"backend":        text("the engine that ran it"),
			"image":          text("the image it ran in"),
		},
		"required": []string{"status", "stdout", "stderr", "files"},
	}
}

func textSchema(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

func listOfTexts(description string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": description}
}

func filesSchema() map[string]any {
	return map[string]any{
		"type":        "array",
		"description": "files that the run created or changed in its working directory",
		"items": map[string]any{
			"type": "object",
			"properties": map[string]any{
				"name": textSchema("file name"), "path": textSchema("path below the working directory"),
				"size": map[string]any{"type": "integer"}, "mime_type": textSchema("media type"),
				"uri": textSchema("for resources/read"), "url": textSchema("where a person finds the file"),
			},
			"required": []string{"name", "path", "size", "mime_type", "uri"},
		},
	}
}

// Clients drop answers that are too long: at most so many files are linked and listed in text, and
// at most so many bytes of JSON describe files in the structured content.
const (
	maxLinks     = 50
	maxFilesText = 60 << 10
)

// toolResult turns a record into what a client gets: text for the model, images in place, links
// to files, and the same as structured content. archive is the address of all files together; "" is none.
func toolResult(r core.Record, archive string) *mcp.CallToolResult {
	result := structured(r, archive)
	content := []mcp.Content{mcp.NewTextContent(recordText(r, result))}
	for _, f := range r.Files {
		if f.Preview != nil {
			content = append(content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(f.Preview.Data), f.Preview.MIMEType))
		}
	}
	for _, f := range r.Files[:min(len(result.Files), maxLinks)] {
		link := mcp.NewResourceLink(f.URI, f.Name, byteCount(f.Size), f.MIMEType)
		link.Size = &f.Size
		content = append(content, link)
	}
	return &mcp.CallToolResult{Content: content, StructuredContent: result}
}

func structured(r core.Record, archive string) runResult {
	result := runResult{
		RunID: r.RunID, Status: r.Status, ExitCode: &r.ExitCode, Signal: r.Signal,
		Stdout: outputText(r.Stdout), Stderr: outputText(r.Stderr),
		DurationMS: map[string]float64{"total": milliseconds(r.Total)},
		Files:      listedFiles(r.Files), ArchiveURL: archive, Warnings: slices.Clone(r.Warnings), InstallLog: r.Install,
		AutoInstalled: r.AutoInstalled, Hint: r.Hint,
		SandboxID: r.Session, Backend: r.Backend, Image: r.Image.Ref, Result: shownValues(r.Displays),
	}
	if r.Status == core.StatusRunning {
		result.ExitCode = nil
	}
	if out, err := r.Stdout.Cut(), r.Stderr.Cut(); out > 0 || err > 0 {
		result.Truncated = &truncated{StdoutBytes: max(0, out), StderrBytes: max(0, err)}
	}
	for phase, d := range r.Durations {
		result.DurationMS[string(phase)] = milliseconds(d)
	}
	if left := len(r.Files) - len(result.Files); left > 0 {
		warning := fmt.Sprintf("%d more files are kept but not listed here", left)
		if archive != "" {
			warning += "; archive_url has all of them"
		}
		result.Warnings = append(result.Warnings, warning)
	}
	return result
}

// listedFiles are the first, as many as one answer may describe.
func listedFiles(all []core.Artifact) []fileResult {
	listed, room := []fileResult{}, maxFilesText
	for _, f := range all {
		name := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		result := fileResult{Name: name, Path: f.Name, Size: f.Size, MIMEType: f.MIMEType, URI: f.URI, URL: f.Location}
		if room -= len(mustJSON(result)); room < 0 {
			break
		}
		listed = append(listed, result)
	}
	return listed
}

// maxShown bounds the values that the code showed as text, in bytes.
const maxShown = 100 << 10

// shownValues joins what the code showed as text, the last first to have room: it is the cell's value.
func shownValues(displays []core.Display) string {
	var values []string
	room, left := maxShown, 0
	for _, d := range slices.Backward(displays) {
		if d.MIMEType != "text/plain" {
			continue
		}
		text := core.PlainText(string(d.Data))
		if room -= len(text); room < 0 && len(values) > 0 {
			left++
			continue
		}
		values = append(values, clip(text, maxShown))
	}
	if left > 0 {
		values = append(values, fmt.Sprintf("… (%d values before are not shown here)", left))
	}
	slices.Reverse(values)
	return strings.Join(values, "\n")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// recordText is the record as a model reads it: the status first, then only what there is.
func recordText(r core.Record, result runResult) string {
	var b strings.Builder
	b.WriteString(statusLine(r))
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n\n%s:\n%s", title, strings.TrimSuffix(text, "\n"))
		}
	}
	if len(r.AutoInstalled) > 0 {
		fmt.Fprintf(&b, "\n\nThe code lacked %s. It was run again from the start with that installed; this is what came of the last time.", strings.Join(r.AutoInstalled, ", "))
	}
	section("stdout", result.Stdout)
	section("result", result.Result)
	section("stderr", result.Stderr)
	var files strings.Builder
	for i, f := range r.Files {
		if i == min(maxLinks, len(result.Files)) {
			fmt.Fprintf(&files, "- and %d more\n", len(r.Files)-i)
			break
		}
		fmt.Fprintf(&files, "- %s (%s, %s)%s\n", shownName(f.Name), f.MIMEType, byteCount(f.Size), shownPlace(f))
	}
	if result.ArchiveURL != "" {
		fmt.Fprintf(&files, "- all of them as a ZIP archive at %s\n", result.ArchiveURL)
	}
	section("hint", result.Hint)
	section("files", files.String())
	if result.Stdout+result.Stderr+result.Result == "" && len(r.Files) == 0 && r.Status == core.StatusOK {
		b.WriteString("\n\nIt printed nothing and wrote no files.")
	}
	section("warnings", strings.Join(result.Warnings, "\n"))
	return b.String()
}

func shownPlace(f core.Artifact) string {
	place := " " + f.URI
	if f.Location != "" {
		place += " at " + shownName(f.Location)
	}
	if f.Preview != nil && f.Preview.Shrunk {
		place += " (shown smaller than it is)"
	}
	return place
}

func statusLine(r core.Record) string {
	if r.Status == core.StatusRunning {
		return fmt.Sprintf("running for %.2f s so far; call get_run with run_id %s to see how it ends, or cancel_run", r.Total.Seconds(), r.RunID)
	}
	end := fmt.Sprintf("exit code %d", r.ExitCode)
	if r.Signal != "" {
		end += ", " + r.Signal
	}
	switch r.Status {
	case core.StatusTimedOut:
		end = "stopped at its time limit; what it did until then is below; ask for more with timeout_seconds"
	case core.StatusOOMKilled:
		end += "; it ran out of memory"
	case core.StatusCancelled:
		end = "cancelled; what it did until then is below"
	case core.StatusOK, core.StatusFailed, core.StatusRunning:
	}
	return fmt.Sprintf("%s (%s) in %.2f s", r.Status, end, r.Durations[core.PhaseRun].Seconds())
}

// failure turns an error of ours into a result that the model can act on.
func (s *Server) failure(err error) *mcp.CallToolResult {
	e := errorResult{
		Type: core.KindOf(err), Message: core.MessageOf(err), Hint: s.inSet(core.HintOf(err)),
		RetryAfter: core.RetryAfterOf(err).Seconds(),
	}
	if e.Type == core.ErrInternal {
		e.Message, e.Hint = "the server failed inside; its log says why", ""
	}
	text := e.Message
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{mcp.NewTextContent(clip(text, 10_000))},
		StructuredContent: runResult{Status: core.StatusFailed, Files: []fileResult{}, Error: &e},
	}
}
