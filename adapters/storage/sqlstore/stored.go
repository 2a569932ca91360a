package sqlstore

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/boxwright/boxwright/core"
)

// The types here are what files hold, apart from core's so that a new name there leaves files readable. A name
// in JSON never changes; a field may be added.

type storedSession struct {
	ID           text            `json:"id"`
	Owner        text            `json:"owner"`
	Name         text            `json:"name,omitempty"`
	Client       text            `json:"client,omitempty"`
	Backend      text            `json:"backend,omitempty"`
	Box          text            `json:"box,omitempty"`
	Server       text            `json:"server,omitempty"`
	Call         text            `json:"call,omitempty"`
	Image        storedImage     `json:"image,omitzero"`
	Requirements []text          `json:"requirements,omitempty"`
	PythonPath   []text          `json:"python_path,omitempty"`
	Installs     []storedInstall `json:"installs,omitempty"`
	Created      time.Time       `json:"created"`
	Used         time.Time       `json:"used,omitzero"`
	IdleTimeout  time.Duration   `json:"idle_timeout_ns,omitempty"`
	MaxAge       time.Duration   `json:"max_age_ns,omitempty"`
	Lost         text            `json:"lost,omitempty"`
}

type storedInstall struct {
	Packages []text        `json:"packages,omitempty"`
	State    text          `json:"state,omitempty"`
	Server   text          `json:"server,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`
	Log      text          `json:"log,omitempty"`
	Failure  storedFailure `json:"failure,omitzero"`
}

type storedEnvironment struct {
	Key      text      `json:"key"`
	Backend  text      `json:"backend,omitempty"`
	Zone     text      `json:"zone,omitempty"`
	Folder   text      `json:"folder,omitempty"`
	Language text      `json:"language,omitempty"`
	Names    []text    `json:"names,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Compiled bool      `json:"compiled,omitempty"`
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used,omitzero"`
}

// storedKey has no hash and no use: these are in columns.
type storedKey struct {
	ID         text         `json:"id"`
	Owner      text         `json:"owner"`
	Label      text         `json:"label,omitempty"`
	Scopes     []core.Scope `json:"scopes"` // null: all
	Created    time.Time    `json:"created"`
	Expires    time.Time    `json:"expires,omitzero"`
	Revoked    time.Time    `json:"revoked,omitzero"`
	ReplacedBy text         `json:"replaced_by,omitempty"`
}

type storedImage struct {
	Ref      text `json:"ref,omitempty"`
	Digest   text `json:"digest,omitempty"`
	Platform text `json:"platform,omitempty"`
}

type storedRun struct {
	ID       text          `json:"id"`
	Owner    text          `json:"owner"`
	Session  text          `json:"session,omitempty"`
	Backend  text          `json:"backend,omitempty"`
	Box      text          `json:"box,omitempty"`
	InBox    text          `json:"in_box,omitempty"`
	Server   text          `json:"server,omitempty"`
	Language text          `json:"language,omitempty"`
	Summary  text          `json:"summary,omitempty"`
	State    text          `json:"state"`
	Started  time.Time     `json:"started"`
	Begun    time.Time     `json:"begun,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`
	Timeout  time.Duration `json:"timeout_ns,omitempty"`
	Record   storedRecord  `json:"record,omitzero"`
	Failure  storedFailure `json:"failure,omitzero"`
}

type storedFailure struct {
	Kind    text `json:"kind,omitempty"`
	Message text `json:"message,omitempty"`
	Hint    text `json:"hint,omitempty"`
}

type storedRecord struct {
	RunID         text             `json:"run,omitempty"`
	Status        text             `json:"status,omitempty"`
	ExitCode      int              `json:"exit_code,omitempty"`
	Signal        text             `json:"signal,omitempty"`
	TimedOut      bool             `json:"timed_out,omitempty"`
	OOMKilled     bool             `json:"oom_killed,omitempty"`
	Cancelled     bool             `json:"cancelled,omitempty"`
	Stdout        storedOutput     `json:"stdout,omitzero"`
	Stderr        storedOutput     `json:"stderr,omitzero"`
	Durations     []storedDuration `json:"durations,omitempty"`
	Total         time.Duration    `json:"total_ns,omitempty"`
	Files         []storedFile     `json:"files,omitempty"`
	Warnings      []text           `json:"warnings,omitempty"`
	Install       text             `json:"install,omitempty"`
	AutoInstalled []text           `json:"auto_installed,omitempty"`
	Hint          text             `json:"hint,omitempty"`
	Displays      []storedDisplay  `json:"displays,omitempty"`
	Session       text             `json:"session,omitempty"`
	Backend       text             `json:"backend,omitempty"`
	Image         storedImage      `json:"image,omitzero"`
}

type storedOutput struct {
	Head    []byte `json:"head,omitempty"`
	Tail    []byte `json:"tail,omitempty"`
	Total   int64  `json:"total,omitempty"`
	Spilled int64  `json:"spilled,omitempty"`
}

type storedDuration struct {
	Phase text          `json:"phase"`
	Took  time.Duration `json:"ns"`
}

type storedDisplay struct {
	MIMEType text   `json:"mime_type"`
	Data     []byte `json:"data,omitempty"`
}

type storedFile struct {
	Run      text           `json:"run,omitempty"`
	Name     text           `json:"name"`
	Size     int64          `json:"size"`
	MIMEType text           `json:"mime_type,omitempty"`
	SHA256   text           `json:"sha256,omitempty"`
	URI      text           `json:"uri,omitempty"`
	Location text           `json:"location,omitempty"`
	Created  time.Time      `json:"created,omitzero"`
	Preview  *storedPreview `json:"preview,omitempty"`
}

type storedPreview struct {
	MIMEType text   `json:"mime_type,omitempty"`
	Data     []byte `json:"data,omitempty"`
	Shrunk   bool   `json:"shrunk,omitempty"`
}

// text is a string that need not be UTF-8: then it is {"base64": "…"}, as JSON's own strings cannot hold it.
type text string

type oddText struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(oddText{Base64: []byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(from []byte) error {
	if len(from) > 0 && from[0] == '{' {
		var odd oddText
		err := json.Unmarshal(from, &odd)
		*t = text(odd.Base64)
		return err
	}
	return json.Unmarshal(from, (*string)(t))
}
