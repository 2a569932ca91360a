package core

import (
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

const artifactScheme = "boxwright://runs/"

// maxRunID bounds a run's id, in bytes.
const maxRunID = 64

// CheckRunID checks the id of a run: 1 to 64 letters, digits, "_" and "-", so that it can be the
// name of a folder and a part of a URI.
func CheckRunID(run string) error {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	if run == "" || len(run) > maxRunID || strings.ContainsFunc(run, strange) {
		return Errorf(ErrInvalid, "%q is not the id of a run", shorten(run)).
			WithHint("ids are 1 to %d letters, digits, _ and -", maxRunID)
	}
	return nil
}

// CheckArtifact checks a run's id and the name of one of its files: a path as CheckPath wants it,
// in UTF-8.
func CheckArtifact(run, name string) error {
	if err := CheckRunID(run); err != nil {
		return err
	}
	if !utf8.ValidString(name) {
		return Errorf(ErrInvalid, "file name %q is not UTF-8", shorten(name))
	}
	return CheckPath(name)
}

// ArtifactURI is the address of a run's file. Both must be as CheckArtifact wants them.
func ArtifactURI(run, name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return artifactScheme + run + "/" + strings.Join(elements, "/")
}

// ParseArtifactURI returns the run and the name of a file's address, both checked.
func ParseArtifactURI(uri string) (run, name string, err error) {
	rest, ours := strings.CutPrefix(uri, artifactScheme)
	run, escaped, hasName := strings.Cut(rest, "/")
	name, unescapeErr := url.PathUnescape(escaped)
	if !ours || !hasName || unescapeErr != nil {
		return "", "", Errorf(ErrInvalid, "%q is not the address of a run's file", shorten(uri)).
			WithHint("addresses look like %sRUN/NAME", artifactScheme)
	}
	if err := CheckArtifact(run, name); err != nil {
		return "", "", err
	}
	return run, name, nil
}

const (
	octets    = "application/octet-stream"
	plainText = "text/plain; charset=utf-8"
)

// mimeByExtension knows the files that runs usually leave. The host's own tables are not asked,
// so that a file has the same type everywhere.
func mimeByExtension() map[string]string {
	return map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
		".webp": "image/webp", ".svg": "image/svg+xml", ".bmp": "image/bmp", ".ico": "image/x-icon",
		".tif": "image/tiff", ".tiff": "image/tiff", ".avif": "image/avif",
		".txt": plainText, ".log": plainText, ".md": "text/markdown; charset=utf-8",
		".csv": "text/csv; charset=utf-8", ".tsv": "text/tab-separated-values; charset=utf-8",
		".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".py": "text/x-python; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".sh": "text/x-shellscript; charset=utf-8", ".tex": "text/x-tex; charset=utf-8",
		".json": "application/json", ".ipynb": "application/x-ipynb+json", ".jsonl": "application/jsonl",
		".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
		".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tgz": "application/gzip",
		".tar": "application/x-tar", ".parquet": "application/vnd.apache.parquet",
		".sqlite": "application/vnd.sqlite3", ".db": octets, ".npy": octets, ".npz": "application/zip", ".pkl": octets,
		".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
		".mp3":  "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".mp4": "video/mp4", ".webm": "video/webm",
	}
}

// MIMETypeOf guesses the type of a file from its name and, failing that, its first bytes.
func MIMETypeOf(name string, head []byte) string {
	if known := mimeByExtension()[strings.ToLower(path.Ext(name))]; known != "" {
		return known
	}
	for _, magic := range []struct{ prefix, mime string }{
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF8", "image/gif"},
		{"%PDF-", "application/pdf"},
		{"PK\x03\x04", "application/zip"},
		{"\x1f\x8b", "application/gzip"},
		{"PAR1", "application/vnd.apache.parquet"},
		{"SQLite format 3\x00", "application/vnd.sqlite3"},
	} {
		if strings.HasPrefix(string(head), magic.prefix) {
			return magic.mime
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		return "image/webp"
	}
	if isText(head) {
		return plainText
	}
	return octets
}

// isText allows a character to be cut in two at the end.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, width := utf8.DecodeRune(head)
		if r == utf8.RuneError && width == 1 {
			return !utf8.FullRune(head)
		}
		if r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\x1b", r) {
			return false
		}
		head = head[width:]
	}
	return true
}
