package installer

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/dependency"
)

var _ dependency.Installer = (*Python)(nil)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata")

const cachedUV = core.GuestCache + "/tools/bin/uv"

const token = "hunter2/+secret"

func requirements(t *testing.T, texts ...string) []core.Requirement {
	t.Helper()
	list, err := core.ParseRequirements(texts)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func install(t *testing.T, p *Python, g *fakeGuest) (string, error) {
	t.Helper()
	installed, err := p.Install(t.Context(), g, core.Ready{}, requirements(t, "six", `tomli; python_version < "3.11"`), nil)
	return installed.Report, err
}

func TestToolIsChosen(t *testing.T) {
	failed := core.Exit{Code: 1}
	const byPip = "-m pip install --no-input"
	tests := []struct {
		name    string
		options Options
		guest   *fakeGuest
		want    string // a part of the command that installs
	}{
		{"uv of the image", Options{}, &fakeGuest{}, " uv pip install --target " + core.GuestEnvironment},
		{"uv of the cache", Options{}, &fakeGuest{has: missing("uv")}, cachedUV + " pip install"},
		{"pip", Options{}, &fakeGuest{has: missing("uv", cachedUV)}, byPip},
		{"broken uv", Options{}, &fakeGuest{exits: map[string]core.Exit{"uv --version": failed, cachedUV + " --version": failed}}, byPip},
		{"source builds do not use the cache", Options{AllowSourceBuilds: true}, &fakeGuest{has: missing("uv")}, "/cache/tools/bin/uv pip install"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := install(t, New(tt.options), tt.guest); err != nil {
				t.Fatal(err)
			}
			spec, ok := tt.guest.command("--target " + core.GuestEnvironment + " ")
			line := strings.Join(spec.Argv, " ")
			if !ok || !strings.Contains(line, tt.want) || tt.options.AllowSourceBuilds && strings.Contains(line, cachedUV) {
				t.Errorf("installed with %q, want %q", line, tt.want)
			}
			if built := !slices.Contains(spec.Argv, ":all:") && !slices.Contains(spec.Argv, "--only-binary=:all:"); built != tt.options.AllowSourceBuilds {
				t.Errorf("%q: source builds are %v", spec.Argv, built)
			}
			if got := tt.guest.files[requirementsFile]; got != "six\ntomli ; python_version < \"3.11\"\n" {
				t.Errorf("the requirements are %q", got)
			}
		})
	}
}

// What uv installs is what the lock says, with hashes, and not what a resolver makes of it once more.
func TestInstallsTheLock(t *testing.T) {
	want := "six==1.17.0 \\\n    --hash=sha256:" + sixHash + "\n"
	for _, has := range []map[string]string{nil, missing("uv", cachedUV)} {
		g := &fakeGuest{has: has}
		installed, err := New(Options{}).Install(t.Context(), g, core.Ready{}, requirements(t, "six"), nil)
		if err != nil || installed.Lock != want {
			t.Fatalf("the lock is %q, %v", installed.Lock, err)
		}
		spec, _ := g.command("--target " + core.GuestEnvironment + " ")
		if has == nil && (g.files[pinsFile] != want || !slices.Contains(spec.Argv, "--require-hashes") || !slices.Contains(spec.Argv, "--no-deps") || spec.Argv[len(spec.Argv)-1] != pinsFile) {
			t.Errorf("%q installs %q", spec.Argv, g.files[pinsFile])
		}
	}
	for name, g := range map[string]*fakeGuest{
		"an option":   {reads: map[string]string{lockFile: "--index-url https://index.example\n"}},
		"no hash":     {reads: map[string]string{lockFile: "six==1\n"}},
		"nonsense":    {reads: map[string]string{reportFile: "{"}, has: missing("uv", cachedUV)},
		"nothing":     {reads: map[string]string{lockFile: ""}},
		"very much":   {reads: map[string]string{lockFile: strings.Repeat("#", maxLock+1)}},
		"much of pip": {reads: map[string]string{reportFile: strings.Repeat(" ", maxReport+1)}, has: missing("uv", cachedUV)},
	} {
		if installed, err := New(Options{}).Install(t.Context(), g, core.Ready{}, requirements(t, "six"), nil); !errors.Is(err, core.ErrDependency) || installed.Lock != "" {
			t.Errorf("%s: got %q, %v", name, installed.Lock, err)
		}
	}
}

// A requirement that holds for another Python only is nothing to install.
func TestNothingIsNeeded(t *testing.T) {
	g := &fakeGuest{reads: map[string]string{lockFile: "\n"}}
	installed, err := install(t, New(Options{}), g)
	if _, ran := g.command("--target"); err != nil || ran || !strings.Contains(installed, "nothing is needed") {
		t.Errorf("got %q, %v; installed: %v", installed, err, ran)
	}
}

// pip would take a stranger's package of the same name, so that it may not have several indexes.
func TestSeveralIndexesNeedUV(t *testing.T) {
	several := Options{ExtraIndexURLs: []string{"https://user:pass@private.example"}, IndexURL: "https://index.example"}
	g := &fakeGuest{has: missing("uv", cachedUV)}
	if _, err := install(t, New(several), g); !errors.Is(err, core.ErrDependency) || !strings.Contains(err.Error(), "several package indexes need uv") {
		t.Errorf("got %v", err)
	}
	var asked []string
	for _, spec := range g.runs {
		if slices.Contains(spec.Argv, "--no-deps") {
			asked = append(asked, spec.Env["PIP_INDEX_URL"])
		}
		if spec.Env["PIP_EXTRA_INDEX_URL"] != "" {
			t.Errorf("pip is told of several indexes: %q", spec.Env)
		}
	}
	if len(asked) != 1 || asked[0] != "https://user:pass@private.example" {
		t.Errorf("uv was looked for in %q", asked)
	}
	g = &fakeGuest{has: missing("uv", cachedUV), exits: map[string]core.Exit{"--no-deps": {Code: 1}}}
	if _, err := install(t, New(several), g); !errors.Is(err, core.ErrDependency) {
		t.Errorf("got %v", err)
	}
	if spec := g.runs[len(g.runs)-2]; spec.Env["PIP_INDEX_URL"] != "https://index.example" {
		t.Errorf("the second index was not asked: %q", spec.Env)
	}
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	g := &fakeGuest{prints: map[string]string{"pip compile": "WARN Skipping unsafe file name: ../../evil.txt\n"}}
	_, err := install(t, New(Options{}), g)
	if !errors.Is(err, core.ErrDependency) || !strings.Contains(err.Error(), `would write outside its folder: "../../evil.txt"`) {
		t.Errorf("got %v", err)
	}
	if spec, ran := g.command("cache clean"); !ran || spec.Argv[len(spec.Argv)-1] != "six" {
		t.Errorf("the cache keeps it: %q", spec.Argv)
	}
}

// A requirement that nobody checked reaches no package manager.
func TestRequirementsAreCheckedAgain(t *testing.T) {
	for _, r := range []core.Requirement{
		{Name: "six", Marker: `python_version > "3" --global-option="--verbose"`},
		{Name: "six --pre"},
		{Name: "-r x"},
		{Name: "six\n-r x"},
		{Name: "six", Spec: "==1 -r x"},
		{Name: "Six"},
		{},
	} {
		g := &fakeGuest{}
		if _, err := New(Options{}).Install(t.Context(), g, core.Ready{}, []core.Requirement{r}, nil); !errors.Is(err, core.ErrInvalid) || len(g.files)+len(g.runs) > 0 {
			t.Errorf("%+v: got %v, files %q", r, err, g.files)
		}
	}
}

func TestUVIsFetchedAgainLater(t *testing.T) {
	p := New(Options{})
	now := time.Now()
	p.now = func() time.Time { return now }
	var staged []string
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {9 * time.Minute, false}, {2 * time.Minute, true}} {
		now = now.Add(step.after)
		g := &fakeGuest{has: missing("uv", cachedUV)}
		if _, err := install(t, p, g); err != nil {
			t.Fatal(err)
		}
		spec, tried := g.command("--no-deps")
		if tried != step.want {
			t.Errorf("an attempt to fetch uv: %v, want %v", tried, step.want)
		}
		if tried {
			staged = append(staged, spec.Argv[slices.Index(spec.Argv, "--target")+1])
		}
	}
	if len(staged) != 2 || staged[0] == staged[1] {
		t.Errorf("two jobs fetch to %q", staged)
	}
}

// A uv that does not work where it was fetched to is not moved to where others look for one.
func TestHalfUVStaysOut(t *testing.T) {
	for _, tt := range []struct {
		code int
		want string
	}{{0, "yes"}, {1, "no"}} {
		g := &fakeGuest{has: missing("uv", cachedUV), exits: map[string]core.Exit{"bin/uv --version": {Code: tt.code}}}
		if _, err := install(t, New(Options{}), g); err != nil {
			t.Fatal(err)
		}
		if spec, moved := g.command("os.rename"); !moved || spec.Argv[len(spec.Argv)-1] != tt.want {
			t.Errorf("exit %d: moved with %q, want %s", tt.code, spec.Argv, tt.want)
		}
	}
}

func TestNothingToInstallWith(t *testing.T) {
	for _, g := range []*fakeGuest{
		{has: missing("uv", cachedUV), exits: map[string]core.Exit{"pip --version": {Code: 1}}},
		{has: missing("uv", cachedUV), exits: map[string]core.Exit{"pip --version": {Code: 127}}},
	} {
		_, err := install(t, New(Options{}), g)
		if !errors.Is(err, core.ErrDependency) || !strings.Contains(err.Error(), "neither uv nor pip") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := install(t, New(Options{}), &fakeGuest{has: missing("uv", "python3", cachedUV)}); !errors.Is(err, core.ErrUnsupported) {
		t.Errorf("without Python: got %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &fakeGuest{}
	p := New(Options{
		IndexURL:       "https://user:pass@index.example/simple",
		ExtraIndexURLs: []string{"https://a.example", "http://b.example:8080/x"},
		CABundle:       bundle,
		HTTPProxy:      "http://proxy.example:1",
		HTTPSProxy:     "http://proxy.example:2",
		NoProxy:        ".example",
		Timeout:        time.Hour,
	})
	if _, err := install(t, p, g); err != nil {
		t.Fatal(err)
	}
	spec, _ := g.command("pip compile")
	for name, want := range map[string]string{
		"UV_INDEX": "https://user:pass@index.example/simple https://a.example", "UV_DEFAULT_INDEX": "http://b.example:8080/x", "PIP_INDEX_URL": "https://user:pass@index.example/simple",
		"PIP_TRUSTED_HOST": "b.example:8080", "PIP_CERT": "/work/ca-bundle.pem", "SSL_CERT_FILE": "/work/ca-bundle.pem",
		"REQUESTS_CA_BUNDLE": "/work/ca-bundle.pem", "HTTP_PROXY": "http://proxy.example:1", "https_proxy": "http://proxy.example:2",
		"NO_PROXY": ".example", "UV_CACHE_DIR": core.GuestCache + "/uv", "UV_LINK_MODE": "copy",
	} {
		if spec.Env[name] != want {
			t.Errorf("%s is %q, want %q", name, spec.Env[name], want)
		}
	}
	if g.files[caFile] != "PEM" || spec.Timeout > time.Hour || spec.Timeout < time.Hour-time.Minute {
		t.Errorf("certificates %q, timeout %v", g.files[caFile], spec.Timeout)
	}
	for _, spec := range g.runs {
		if strings.Contains(strings.Join(spec.Argv, " "), ":pass@") {
			t.Errorf("credentials in a command line: %q", spec.Argv)
		}
	}
	bare := New(Options{AllowSourceBuilds: true}).newJob(nil, nil, nil)
	if got := bare.env["UV_CACHE_DIR"]; got != bare.scratch+"/cache/uv" || bare.env["UV_LINK_MODE"] != "hardlink" {
		t.Errorf("a private cache is %q", got)
	}
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "HTTP_PROXY", "PIP_TRUSTED_HOST"} {
		if value, set := bare.env[name]; set {
			t.Errorf("%s is set to %q though nobody set it", name, value)
		}
	}
}

func TestMissingBundle(t *testing.T) {
	_, err := install(t, New(Options{CABundle: filepath.Join(t.TempDir(), "none")}), &fakeGuest{})
	if !errors.Is(err, core.ErrDependency) || !strings.Contains(core.HintOf(err), "dependencies.ca_bundle") {
		t.Errorf("got %v", err)
	}
}

// Whatever a package manager prints, credentials come out nowhere.
func TestCredentialsAreScrubbed(t *testing.T) {
	var log bytes.Buffer
	escaped := "hunter2%2F%2Bsecret"
	options := Options{
		IndexURL:   "https://user:" + escaped + "@index.example/simple",
		HTTPProxy:  "https://ghp_TOKEN99@p.example/Pa7hT0ken/simple/?key=Qu3ryK3y",
		HTTPSProxy: "http://pu:proxy-pw@proxy.example:1",
		NoProxy:    "x",
		Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	said := "Looking in https://user:" + escaped + "@index.example/simple\n" +
		"decoded " + token + ", token ghp_TOKEN99, proxy-pw\n" +
		"https://other:unknown-secret@elsewhere.example/x\n" +
		"https://p.example/Pa7hT0ken/simple/six/?key=Qu3ryK3y and Pa7hT0ken, Qu3ryK3y\n" +
		"\x1b[31mred\x1b[0m \x1b]8;;https://user:" + escaped + "@index.example\x07link\n\u0007bell\r\n" + strings.Repeat("long ", 2000) + "\n"
	for _, code := range []int{0, 1} {
		g := &fakeGuest{has: missing("uv", cachedUV), prints: map[string]string{"--report ": said, "--no-deps": said, "compileall": said}, exits: map[string]core.Exit{"--report ": {Code: code}, "--no-deps": {Code: 1}}}
		var told strings.Builder
		installed, err := New(options).Install(t.Context(), g, core.Ready{}, requirements(t, "six"), func(p core.Progress) { fmt.Fprintln(&told, p.Message) })
		if (err != nil) != (code != 0) {
			t.Fatalf("exit %d: %v", code, err)
		}
		all := map[string]string{"report": installed.Report, "lock": installed.Lock, "error": fmt.Sprint(err), "progress": told.String(), "log": log.String(), "options": fmt.Sprintf("%v %+v %#v", options, &options, options)}
		for where, text := range all {
			for _, secret := range []string{"hunter2", "secret@", "ghp_TOKEN99", "proxy-pw", "Pa7hT0ken", "Qu3ryK3y", "unknown-secret", "\x1b", "\a"} {
				if strings.Contains(text, secret) {
					t.Errorf("exit %d: the %s shows %q: %s", code, where, secret, text)
				}
			}
		}
		if code == 1 && len(err.Error()) > 2<<10 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func TestURLsAreScrubbed(t *testing.T) {
	s := newScrubber([]string{
		"https://index.example/Tok3nInPath/simple/", "https://q.example/simple?token=quer%2Fy+secret&x=1", "https://bare.example/simple/?BARETOKEN",
		"https://Short.example:8443/s3c/simple", "http://user:pa@ss@proxy.example:3128/", "proxyuser:proxysecret@proxy.example", "::not a url::secret",
		"https://f.example/simple#fragment-secret", "https://enc.example/tok%2Fen%20value/simple", "https://index.example/simple",
	})
	for text, want := range map[string]string{
		"Looking in https://index.example/Tok3nInPath/simple/six/ now": "Looking in https://index.example/***/six/ now",
		"File /cache/Tok3nInPath.json":                                 "File /cache/***.json",
		"https%3A%2F%2Findex.example%2FTok3nInPath%2Fsimple":           "https%3A%2F%2Findex.example%2F***%2Fsimple",
		"token quer/y secret":                                          "token ***",
		"token quer%2Fy+secret quer%2fy%20secret":                      "token *** ***",
		"https://q.example/simple?token=quer%2Fy&x=1":                  "https://q.example/***?***",
		"BARETOKEN": "***",
		"GET https://short.example:8443/s3c/simple/six": "GET https://short.example:8443/***/six",
		"pa@ss":                                              "***",
		"http://user:pa@ss@proxy.example":                    "http://***@proxy.example",
		"proxysecret":                                        "***",
		"::not a url::secret":                                "***",
		"fragment-secret":                                    "***",
		"tok/en value, tok%2Fen%20value":                     "***, ***",
		"tok%2fen+value":                                     "***",
		"https://index.example/simple/six/":                  "https://index.example/simple/six/",
		"https://cdn.example/x?Signature=abc":                "https://cdn.example/x?***",
		"(from https://cdn.example/x.whl?a=b) (from x)":      "(from https://cdn.example/x.whl?***) (from x)",
		"https://cdn.example/six-1.whl#sha256=00 repository": "https://cdn.example/six-1.whl#sha256=00 repository",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// Where output was cut, half a secret may stand.
func TestCutOutputShowsWholeLines(t *testing.T) {
	for _, tt := range []struct {
		output core.Output
		want   string
	}{
		{core.Output{Head: []byte("one\nhunt"), Tail: []byte("secret\ntwo"), Total: 100}, "one\n…\ntwo\n"},
		{core.Output{Head: []byte("hunter"), Total: 100}, "…\n"},
		{core.Output{Head: []byte("one\ntw"), Tail: []byte("o\n"), Total: 8}, "one\ntwo\n"},
		{core.Output{}, ""},
	} {
		if got := outputText(tt.output); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("https://user:hunter2hunter2@index.example/x", 3)
	f.Add("\x1b]8;;hunter2hunter2", 0)
	s := newScrubber([]string{"https://user:hunter2hunter2@index.example"})
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = max(0, min(at, len(text)))
		got := s.clean(text[:at] + "hunter2hunter2" + text[at:])
		if strings.Contains(got, "hunter2hunter2") || strings.ContainsAny(got, "\x00\x1b\r\a") {
			t.Errorf("%q shows too much: %q", text, got)
		}
	})
}

func TestEndings(t *testing.T) {
	tests := []struct {
		name string
		exit core.Exit
		kind core.Kind
		want string
	}{
		{"timeout", core.Exit{Code: 137, Signal: "SIGKILL", TimedOut: true}, core.ErrDependency, "took longer than 5m0s"},
		{"memory", core.Exit{Code: 137, Signal: "SIGKILL", OOMKilled: true}, core.ErrDependency, "more memory"},
		{"cancelled", core.Exit{Code: 137, Signal: "SIGKILL", Cancelled: true}, core.ErrCancelled, "given up"},
		{"killed", core.Exit{Code: 137}, core.ErrDependency, "was killed"},
		{"unknown", core.Exit{Code: 3}, core.ErrDependency, "exit status 3"},
	}
	for _, tt := range tests {
		_, err := install(t, New(Options{}), &fakeGuest{exits: map[string]core.Exit{"-r ": tt.exit}})
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	lost := core.Errorf(core.ErrUnavailable, "the box is gone")
	if _, err := install(t, New(Options{}), &fakeGuest{dead: lost}); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a lost box: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(Options{}).Install(ctx, &fakeGuest{}, core.Ready{}, requirements(t, "six"), nil); !errors.Is(err, core.ErrCancelled) {
		t.Errorf("a cancelled context: got %v", err)
	}
}

func TestReportIsTheEnd(t *testing.T) {
	var said strings.Builder
	for n := range 50 {
		fmt.Fprintf(&said, "line %d\n", n)
	}
	report, err := install(t, New(Options{}), &fakeGuest{prints: map[string]string{"-r ": said.String()}})
	if lines := strings.Split(report, "\n"); err != nil || len(lines) != 20 || lines[19] != "line 49" {
		t.Errorf("got %q, %v", report, err)
	}
}

func TestFingerprint(t *testing.T) {
	base := Options{IndexURL: "https://user:one@index.example/simple", ExtraIndexURLs: []string{"https://a.example"}}
	print := func(change func(*Options)) string {
		o := base
		change(&o)
		return New(o).Fingerprint()
	}
	same := print(func(*Options) {})
	if got := print(func(o *Options) {
		o.IndexURL = "https://other:two@index.example/simple"
		o.Timeout = time.Hour
		o.NoProxy = "x"
	}); got != same {
		t.Error("credentials and timeouts change it")
	}
	seen := map[string]string{same: "base"}
	for name, change := range map[string]func(*Options){
		"index": func(o *Options) { o.IndexURL = "https://other.example/simple" },
		"none":  func(o *Options) { o.IndexURL = "" },
		"extra": func(o *Options) { o.ExtraIndexURLs = []string{"https://b.example"} },
		"swap": func(o *Options) {
			o.IndexURL, o.ExtraIndexURLs = "https://index.example/simple", []string{"https://a.example"}
		},
		"source": func(o *Options) { o.AllowSourceBuilds = true },
		"wheels": func(o *Options) { o.Wheels = "/wheels" },
		"room":   func(o *Options) { o.MaxSize = 1 << 20 },
	} {
		got := print(change)
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[got] = name
	}
	if strings.Contains(strings.Join(slices.Collect(maps.Keys(seen)), " "), "one") {
		t.Error("a credential is in it")
	}
}

// TestDiagnoses reads what pip and uv really said, and compares what a person is told.
func TestDiagnoses(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil || len(archive.Files) != 2 {
				t.Fatalf("%d files, %v", len(archive.Files), err)
			}
			p := New(Options{})
			failure := p.judge(t.Context(), "installing six", core.Exit{Code: 1}, p.scrub.clean(string(archive.Files[0].Data)))
			if !errors.Is(failure, core.ErrDependency) {
				t.Fatalf("got %v", failure)
			}
			got := core.MessageOf(failure) + "\nhint: " + core.HintOf(failure) + "\n"
			if *update {
				archive.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := string(archive.Files[1].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Bytecode is compiled from where the packages stay, by the image's Python; a compiler that takes too long has done
// what it could, and one that cannot be run is told.
func TestCompile(t *testing.T) {
	for name, tt := range map[string]struct {
		guest *fakeGuest
		want  error
	}{
		"done":        {&fakeGuest{}, nil},
		"out of time": {&fakeGuest{exits: map[string]core.Exit{"python3": {TimedOut: true}}}, nil},
		"failed":      {&fakeGuest{exits: map[string]core.Exit{"python3": {Code: 1}}}, core.ErrDependency},
		"no Python":   {&fakeGuest{has: missing("python3")}, core.ErrUnsupported},
	} {
		if err := New(Options{}).Compile(t.Context(), tt.guest, "/kept"); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
		if argv := tt.guest.runs[0].Argv; !slices.Equal(argv[len(argv)-2:], []string{"/kept", core.GuestEnvironment}) || argv[1] != "-I" {
			t.Errorf("%s: it ran %q", name, argv)
		}
	}
}
