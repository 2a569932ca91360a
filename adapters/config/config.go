// Package config reads the operator's settings: defaults, then what the host's package
// manager uses, then a YAML file, then the older program's variables, then BOXWRIGHT_*
// variables, then flags; the later wins. It is strict: what it does not know is an error that
// says where it stands and what was probably meant.
//
// It is not for deciding anything: it hands a Config to cmd/boxwright, which wires the
// program from it. Settings of a backend pass through it unread; the plugin decodes them.
package config

import (
	"time"

	"github.com/boxwright/boxwright/core"
)

// NoFiles as files.dir writes no file of any run to this host's disk: files can be read while the server
// runs, and the oldest go soon.
const NoFiles = "none"

// Config is every setting. Each field's comment is the documentation of its key; configs/full.yaml
// lists all keys with their defaults.
type Config struct {
	// Backend names the backend that is used when nobody asks for another. auto: the first of docker,
	// podman and gvisor that works when the server starts, or else at the next call.
	Backend string `koanf:"backend"`
	// Backends holds the settings of each backend, by the name that users see. A backend whose plugin
	// lies beside the server's executable needs none. If there are several, clients may choose.
	Backends map[string]Backend `koanf:"backends"`
	// Routes send some runs to a backend of their own; the first that matches counts.
	Routes []Route `koanf:"routes" empty:"falls back" example:"{image: team/*, backend: docker}"`
	// Languages are what code may be in besides Python, by name, and changes to those that Boxwright knows: bash,
	// sh, javascript and typescript.
	Languages map[string]Language `koanf:"languages"`
	// Transport is how clients talk to the server: on its standard input and output, over HTTP, or both.
	Transport string `koanf:"transport" allowed:"stdio,http,both"`
	// Tools is the set of tools that clients see: default, or that of an older program under its names.
	Tools string `koanf:"tools" allowed:"default,python-code-sandbox,mcp-sandbox"`

	HTTP         HTTP         `koanf:"http"`
	Storage      Storage      `koanf:"storage"`
	Files        Files        `koanf:"files"`
	Images       Images       `koanf:"images"`
	Limits       Limits       `koanf:"limits"`
	Runs         Runs         `koanf:"runs"`
	Quotas       Quotas       `koanf:"quotas"`
	Auth         Auth         `koanf:"auth"`
	Audit        Audit        `koanf:"audit"`
	Pool         Pool         `koanf:"pool"`
	Sessions     Sessions     `koanf:"sessions"`
	Dependencies Dependencies `koanf:"dependencies"`
	Log          Log          `koanf:"log"`

	// Notes are sentences for the log: old names that were used, values that were ignored.
	Notes []string `koanf:"-"`
}

// Backend is where a plugin is and what it is told.
type Backend struct {
	// Plugin is the plugin's name, so that several backends may be of one plugin. Empty: the backend's.
	Plugin string `koanf:"plugin" empty:"falls back"`
	// Path is the plugin's executable. Empty: boxwright-backend-PLUGIN beside the server's own.
	Path string `koanf:"path" path:"yes" empty:"falls back"`
	// SHA256 pins the executable: 64 hexadecimal digits. Empty: not checked.
	SHA256 string `koanf:"sha256"`
	// Env lists what the plugin's environment holds besides PATH and HOME: NAME passes the
	// server's own variable on, NAME=VALUE sets one.
	Env []string `koanf:"env"`
	// Settings are the plugin's own; it decodes them strictly.
	Settings map[string]any `koanf:"settings"`
}

// Storage is where the server remembers things.
type Storage struct {
	// Artifacts is where files of runs are kept: disk outlives the server, s3 the machine.
	Artifacts string `koanf:"artifacts" allowed:"disk,memory,s3"`
	// S3 is the bucket for files of runs, with artifacts s3.
	S3 S3 `koanf:"s3"`
	// Database is where users, keys and the audit log are kept, and what sessions and environments say is on disk:
	// sqlite is a file in the state folder. memory keeps nothing beyond the server.
	Database string `koanf:"database" allowed:"sqlite,postgres,memory"`
	// Postgres is the database, with database postgres.
	Postgres Postgres `koanf:"postgres"`
	// Sessions is where sessions and the results of runs are kept: disk is the database, which outlives the server.
	Sessions string `koanf:"sessions" allowed:"disk,memory"`
	// Environments is where the index of installed dependencies is kept.
	Environments string `koanf:"environments" allowed:"disk,memory"`
	// Dir is the state folder. Empty: $XDG_STATE_HOME/boxwright, else ~/.local/state/boxwright.
	Dir string `koanf:"dir" path:"yes" empty:"falls back"`
}

// The databases.
const (
	DatabaseSQLite   = "sqlite"
	DatabasePostgres = "postgres"
	DatabaseMemory   = "memory"
)

// Postgres is a schema of a PostgreSQL database.
type Postgres struct {
	// URL is the database's address, with user and password. What it leaves out comes from PGPASSFILE and the other
	// variables of PostgreSQL's own programs.
	URL Secret `koanf:"url" empty:"falls back"`
	// URLFile is a file that holds the URL, and nothing else.
	URLFile string `koanf:"url_file" path:"yes" empty:"falls back"`
	// Schema is where the tables are. It is made if it is missing, and is one installation's alone.
	Schema string `koanf:"schema"`
}

// S3 is a bucket of an S3-compatible store.
type S3 struct {
	// Endpoint is the store's address: https://host or http://host:port.
	Endpoint string `koanf:"endpoint"`
	// Region is the bucket's. Empty: the store's default.
	Region string `koanf:"region"`
	// Bucket must be there already.
	Bucket string `koanf:"bucket"`
	// Prefix comes before all names in the bucket, so that others may use it too.
	Prefix string `koanf:"prefix"`
	// AccessKey names the key. Empty: what AWS_ACCESS_KEY_ID, the credentials file or the machine's role say.
	AccessKey string `koanf:"access_key" empty:"falls back"`
	// SecretKey is the key's secret.
	SecretKey Secret `koanf:"secret_key" empty:"falls back"`
}

// Files bounds what is kept of the files that runs leave.
type Files struct {
	// Dir is the folder that people open. Empty: the folder files of storage.dir. "none": nothing is
	// written to disk, as with storage.artifacts memory; files can be read while the server runs.
	Dir string `koanf:"dir" path:"yes" empty:"falls back"`
	// UploadFrom lists folders of this machine whose files a client on standard input may put into sandboxes.
	UploadFrom []string `koanf:"upload_from"`
	// MaxAge is how long files are kept after their run. 0: for ever.
	MaxAge Duration `koanf:"max_age"`
	// MaxBytes bounds all kept files together, in bytes; the oldest go first. 0: no bound. In memory
	// the bound is 256 MiB, or files.max_per_run if that is more, unless this is less.
	MaxBytes Size `koanf:"max_bytes"`
	// MaxFile bounds one file, in bytes; a bigger one is left in its box with a warning.
	MaxFile Size `koanf:"max_file"`
	// MaxPerRun bounds the files of one run together, in bytes.
	MaxPerRun Size `koanf:"max_per_run"`
	// InlineImage is the biggest image that goes into an answer, in bytes; bigger ones are shrunk.
	InlineImage Size `koanf:"inline_image"`
}

// memoryRoom bounds kept files in memory, in bytes.
const memoryRoom = 256 << 20

// InMemory reports whether files are kept in the server's memory.
func (f Files) InMemory(s Storage) bool {
	return s.Artifacts == "memory" || s.Artifacts == "disk" && f.Dir == NoFiles
}

// Room is the bound of all kept files, in bytes; 0 is none. The files of one run always fit.
func (f Files) Room(s Storage) int64 {
	room := int64(f.MaxBytes)
	if !f.InMemory(s) {
		return room
	}
	small := max(memoryRoom, int64(f.MaxPerRun))
	if room == 0 {
		return small
	}
	return min(room, small)
}

// Images says which images boxes are made from.
type Images struct {
	// Default is the image of a run that names none. Empty: the backend's own, else python:3.11-slim.
	// It may always be asked for.
	Default string `koanf:"default" empty:"falls back"`
	// Allow lists the patterns of further images that clients may ask for: see core.ImagePolicy.
	Allow []string `koanf:"allow"`
	// Pull is when an image is fetched from its registry.
	Pull string `koanf:"pull" allowed:"missing,always,never"`
}

// Policy returns images.allow as a policy.
func (i Images) Policy() core.ImagePolicy { return core.ImagePolicy(i.Allow) }

// PullPolicy returns images.pull as backends understand it.
func (i Images) PullPolicy() core.PullPolicy {
	if i.Pull == "missing" {
		return core.PullMissing
	}
	return core.PullPolicy(i.Pull)
}

// Limits bounds each box, those that packages are installed in too, but for their workspace; and all boxes
// together.
type Limits struct {
	// Memory bounds memory and swap together, and what is written to the box's disk, in bytes.
	Memory Size `koanf:"memory"`
	// CPUs bounds processor time: 0.5 is half a processor.
	CPUs float64 `koanf:"cpus"`
	// PIDs bounds processes and threads.
	PIDs int64 `koanf:"pids"`
	// Disk bounds the workspace, in bytes. 0: 512 MiB, or a quarter of the memory if that is less.
	Disk Size `koanf:"disk"`
	// Unenforced is what happens to a limit that the backend cannot make hold: refuse runs
	// nothing, warn says so in each result.
	Unenforced string `koanf:"unenforced" allowed:"refuse,warn"`
	// MaxBoxes is how many boxes there may be at once: of runs, sessions and installations. 0: no bound.
	MaxBoxes int64 `koanf:"max_boxes"`
	// MaxMemory bounds limits.memory of all boxes together, in bytes. 0: no bound, as boxes rarely use all
	// that they may, and the engine may be on another machine.
	MaxMemory Size `koanf:"max_memory"`
}

// Core returns the limits with nothing left open.
func (l Limits) Core() core.Limits {
	return core.Limits{
		MemoryBytes: int64(l.Memory), CPUs: l.CPUs, PIDs: l.PIDs, DiskBytes: int64(l.Disk),
	}.WithDefaults(core.DefaultLimits())
}

// Policy returns limits.unenforced as backends understand it.
func (l Limits) Policy() core.Unenforced {
	if l.Unenforced == "warn" {
		return core.UnenforcedWarn
	}
	return core.UnenforcedRefuse
}

// Runs bounds each run.
type Runs struct {
	// Timeout is the wall-clock time of a run that asks for none.
	Timeout Duration `koanf:"timeout"`
	// MaxTimeout is the most that a run may ask for.
	MaxTimeout Duration `koanf:"max_timeout"`
	// MaxCode bounds the code of a run, in bytes.
	MaxCode Size `koanf:"max_code"`
	// MaxStdin bounds the input of a run, in bytes.
	MaxStdin Size `koanf:"max_stdin"`
	// MaxFiles is how many files a client may send with a run.
	MaxFiles int64 `koanf:"max_files"`
	// MaxUpload bounds the files sent with a run together, in bytes.
	MaxUpload Size `koanf:"max_upload"`
	// OutputHead is how much of each of stdout and stderr an answer holds from the beginning, in bytes.
	OutputHead Size `koanf:"output_head"`
	// OutputTail is how much of each an answer holds from the end, in bytes.
	OutputTail Size `koanf:"output_tail"`
	// OutputKeep is how much of each is kept as a file when an answer cannot hold it, in bytes.
	OutputKeep Size `koanf:"output_keep"`
	// SyncLimit is how long a call waits for its run; then the run goes on in the background.
	SyncLimit Duration `koanf:"sync_limit"`
	// Keep is how long the results of runs are kept.
	Keep Duration `koanf:"keep"`
	// KeepSize bounds what is kept of what runs printed and showed, in bytes; the oldest goes first. 0 is no bound.
	KeepSize Size `koanf:"keep_size"`
	// MaxConcurrent is how many runs go on at the same time on one backend; further ones wait.
	MaxConcurrent int64 `koanf:"max_concurrent"`
	// MaxQueued is how many runs of one principal may wait for a place; further ones are refused.
	MaxQueued int64 `koanf:"max_queued"`
	// MaxWait is how long a run may wait for a place; then it is refused. A call without a run waits SyncLimit at most.
	MaxWait Duration `koanf:"max_wait"`
}

// Sessions bounds the boxes that stay between calls.
type Sessions struct {
	// IdleTimeout is how long a session stays that nobody uses.
	IdleTimeout Duration `koanf:"idle_timeout"`
	// MaxIdleTimeout is the most that a client may ask for.
	MaxIdleTimeout Duration `koanf:"max_idle_timeout"`
	// MaxAge is how long a session stays at all.
	MaxAge Duration `koanf:"max_age"`
	// MaxQueued is how many calls may wait for one session; further ones are refused.
	MaxQueued int64 `koanf:"max_queued"`
	// KeepOnExit leaves sessions alive when the server ends as it should, for the next one. Those of a server
	// that was killed stay in any case.
	KeepOnExit bool `koanf:"keep_on_exit"`
}

// Output returns the bounds of each stream as the agent understands them.
func (r Runs) Output() core.OutputLimits {
	return core.OutputLimits{Head: int64(r.OutputHead), Tail: int64(r.OutputTail), Spill: int64(r.OutputKeep)}
}

// Dependencies says how packages are installed for runs that ask for them.
type Dependencies struct {
	// Enabled allows runs to name dependencies.
	Enabled bool `koanf:"enabled"`
	// AutoInstall allows runs to ask that packages they turn out to lack are installed, unnamed.
	AutoInstall bool `koanf:"auto_install"`
	// IndexURL is the package index; it may hold credentials. Empty: what pip or uv on this host
	// are set to use, else their default.
	IndexURL Secret `koanf:"index_url" empty:"falls back"`
	// ExtraIndexURLs are further indexes; they may hold credentials. A package comes from the first index that
	// has its name: those with credentials are asked first, and the main index after the extra ones. Empty: those
	// that pip or uv on this host are set to use.
	ExtraIndexURLs []Secret `koanf:"extra_index_urls" empty:"falls back"`
	// CABundle is a PEM file of the certificate authorities to trust. Empty: the file of PIP_CERT,
	// SSL_CERT_FILE or REQUESTS_CA_BUNDLE.
	CABundle string `koanf:"ca_bundle" path:"yes" empty:"falls back"`
	// HTTPProxy is the proxy for http URLs; it may hold credentials. Empty: HTTP_PROXY.
	HTTPProxy Secret `koanf:"http_proxy" empty:"falls back"`
	// HTTPSProxy is the proxy for https URLs; it may hold credentials. Empty: HTTPS_PROXY.
	HTTPSProxy Secret `koanf:"https_proxy" empty:"falls back"`
	// NoProxy lists hosts that are reached without a proxy, by commas. Empty: NO_PROXY.
	NoProxy string `koanf:"no_proxy" empty:"falls back"`
	// Wheels is a folder of ready-made wheels on this host. If it is set they are all there is: no index is asked.
	Wheels string `koanf:"wheels" path:"yes"`
	// DirectURLs allows requirements like "name @ https://host/file.whl", and with allow_source_builds those like
	// "name @ git+https://host/repository". The installer then fetches what a client names, also from hosts
	// that only this one reaches.
	DirectURLs bool `koanf:"direct_urls"`
	// AllowSourceBuilds lets the installer run code of packages that offer no wheel.
	AllowSourceBuilds bool `koanf:"allow_source_builds"`
	// Cache keeps downloads for later installations. With allow_source_builds none are kept in any case.
	Cache bool `koanf:"cache"`
	// MaxCache bounds the kept downloads of each image, in bytes: beyond it all go. 0: no bound.
	MaxCache Size `koanf:"max_cache"`
	// MaxEnvironment bounds what is installed for one list of packages, in bytes.
	MaxEnvironment Size `koanf:"max_environment"`
	// Timeout bounds one installation.
	Timeout Duration `koanf:"timeout"`
	// MaxAge is how long after its install an environment is used; then it is removed. 0: for ever.
	MaxAge Duration `koanf:"max_age"`
	// Keep bounds what stays installed. What a run or a sandbox uses stays in any case.
	Keep Keep `koanf:"keep"`
	// Warm lists what is installed when the server starts, before anybody asks for it, and again after it was
	// removed.
	Warm []WarmSet `koanf:"warm" empty:"falls back" example:"{packages: [numpy, pandas]}"`
}

// Log says what the server writes to stderr.
type Log struct {
	// Level is the least important line that is written.
	Level string `koanf:"level" allowed:"debug,info,warn,error"`
	// Format is for people (text) or for machines (json).
	Format string `koanf:"format" allowed:"text,json"`
}

// Default returns the settings of an operator who sets nothing. Folders are still empty: they
// depend on the environment, and Load fills them in.
func Default() Config {
	limits := core.DefaultLimits()
	return Config{
		Backend:   Auto,
		Transport: TransportStdio,
		HTTP:      defaultHTTP(),
		Tools:     "default",
		Storage:   Storage{Artifacts: "disk", Database: DatabaseSQLite, Postgres: Postgres{Schema: "boxwright"}, Sessions: "disk", Environments: "disk"},
		Files: Files{
			UploadFrom: []string{},
			MaxAge:     hours(7 * 24), MaxBytes: 5 << 30, MaxFile: 100 << 20, MaxPerRun: 200 << 20, InlineImage: 500 << 10,
		},
		Images: Images{Allow: []string{"python"}, Pull: "missing"},
		Limits: Limits{Memory: Size(limits.MemoryBytes), CPUs: limits.CPUs, PIDs: limits.PIDs, Unenforced: "refuse", MaxBoxes: 100},
		Runs: Runs{
			Timeout: seconds(30), MaxTimeout: seconds(600),
			MaxCode: 16 << 20, MaxStdin: 16 << 20, MaxFiles: 64, MaxUpload: 16 << 20,
			OutputHead: 16 << 10, OutputTail: 16 << 10, OutputKeep: 32 << 20,
			SyncLimit: seconds(45), Keep: hours(24), KeepSize: 256 << 20,
			MaxConcurrent: 32, MaxQueued: 256, MaxWait: seconds(120),
		},
		Quotas: Quotas{CPUWindow: hours(24)},
		Auth:   defaultAuth(),
		Audit:  Audit{Code: string(core.AuditCodeHash), Keep: hours(90 * 24)},
		Pool: Pool{
			Enabled: true, Size: 1, Max: 8, Installers: 1, MaxMemory: 1 << 30, IdleTimeout: seconds(600), MaxAge: seconds(1800),
			Preload: []string{"numpy", "pandas", "matplotlib"},
		},
		Sessions: Sessions{
			IdleTimeout: seconds(1800), MaxIdleTimeout: hours(24), MaxAge: hours(24), MaxQueued: 64,
		},
		Dependencies: Dependencies{
			Enabled: true, AutoInstall: true, Cache: true, MaxCache: 10 << 30, MaxEnvironment: 4 << 30, Timeout: seconds(300), MaxAge: hours(30 * 24), Keep: Keep{MaxSize: 20 << 30, MaxAge: hours(14 * 24)},
		},
		Log: Log{Level: "info", Format: "text"},
	}
}

func seconds(n int64) Duration { return Duration(time.Duration(n) * time.Second) }
func hours(n int64) Duration   { return Duration(time.Duration(n) * time.Hour) }
