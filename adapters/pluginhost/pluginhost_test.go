package pluginhost_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/boxwright/boxwright/adapters/pluginhost"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// roleKey names the part that the test binary plays as a plugin. It is one of the variables
// that the tests pass on.
const roleKey = "BOXWRIGHT_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(sdk.CookieKey) != "" {
		play(os.Getenv(roleKey))
		return
	}
	os.Exit(m.Run())
}

func play(role string) {
	stderr := os.Stderr
	switch role {
	case "rubbish":
		fmt.Println("hello, I am no plugin") //nolint:forbidigo // this is the fault
		time.Sleep(time.Minute)
	case "silent":
		time.Sleep(time.Minute)
	case "crash":
		fmt.Fprintln(stderr, "cannot find my own feet")
		os.Exit(7)
	case "newer":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  sdk.Handshake(),
			VersionedPlugins: map[int]plugin.PluginSet{99: sdk.Plugins(open)[sdk.ProtocolVersion]},
			GRPCServer:       plugin.DefaultGRPCServer,
		})
	case "hang":
		sdk.Serve(func(ctx context.Context, _ sdk.Config) (execution.Backend, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	case "mute":
		sdk.Serve(func(ctx context.Context, cfg sdk.Config) (execution.Backend, error) {
			b, err := open(ctx, cfg)
			return mute{b}, err
		})
	case "flood":
		sdk.Serve(func(ctx context.Context, cfg sdk.Config) (execution.Backend, error) {
			go func() {
				for {
					fmt.Fprintln(stderr, strings.Repeat("noise ", 100_000))
					fmt.Println("more noise") //nolint:forbidigo // this is the fault
				}
			}()
			return open(ctx, cfg)
		})
	default:
		sdk.Serve(open)
	}
}

// open makes a fake with some faults, and tells about its process by the name of its engine.
func open(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
	var settings struct {
		Known string `json:"known"`
	}
	if err := sdk.DecodeSettings(cfg.Settings, &settings); err != nil {
		return nil, err
	}
	return faulty{executiontest.NewFake()}, nil
}

// faulty is a fake that hangs, and that shows its environment.
type faulty struct{ execution.Backend }

func (f faulty) Info(ctx context.Context) (core.Info, error) {
	info, err := f.Backend.Info(ctx)
	info.Warnings = os.Environ()
	return info, err
}

func (f faulty) Destroy(ctx context.Context, box string) error {
	if mark, ok := strings.CutPrefix(box, "hang once:"); ok {
		if _, err := os.Stat(mark); err == nil {
			return nil
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Backend.Destroy(ctx, box)
}

func (f faulty) Create(ctx context.Context, spec core.BoxSpec) (core.Box, error) {
	if spec.Image == "hang" {
		<-ctx.Done()
		return core.Box{}, ctx.Err()
	}
	return f.Backend.Create(ctx, spec)
}

// mute never tells about itself, whatever the host wants.
type mute struct{ execution.Backend }

func (mute) Info(context.Context) (core.Info, error) {
	time.Sleep(time.Minute)
	return core.Info{}, nil
}

// config runs the test binary as a plugin with a role.
func config(t *testing.T, role string) pluginhost.Config {
	t.Helper()
	t.Setenv(roleKey, role)
	return pluginhost.Config{Name: "fake", Path: os.Args[0], EnvAllow: []string{roleKey}, Logger: slog.New(slog.DiscardHandler)}
}

func start(t *testing.T, cfg pluginhost.Config) *pluginhost.Plugin {
	t.Helper()
	p := pluginhost.Open(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestConformance(t *testing.T) {
	executiontest.Run(t, func(t *testing.T) executiontest.Env {
		return executiontest.RemoteFakeEnv(start(t, config(t, "")))
	}, executiontest.RemoteSkips()...)
}

func TestEnvironmentIsTheAllowList(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	t.Setenv("DOCKER_HOST", "unix:///x")
	cfg := config(t, "")
	cfg.EnvAllow = append(cfg.EnvAllow, "DOCKER_HOST", "NOT_SET")
	info, err := start(t, cfg).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pair := range info.Warnings {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "PLUGIN_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if want := []string{sdk.CookieKey, roleKey, "DOCKER_HOST"}; !slices.Equal(names, want) {
		t.Errorf("the plugin sees %q, want %q", names, want)
	}
}

func TestDefaultEnvironmentHasNoSecrets(t *testing.T) {
	t.Setenv("KUBECONFIG", "/k")
	t.Setenv("OPENAI_API_KEY", "hunter2")
	cfg := config(t, "")
	cfg.EnvAllow = nil
	info, err := start(t, cfg).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range append(pluginhost.DefaultEnv(), info.Warnings...) {
		name, _, _ := strings.Cut(variable, "=")
		if strings.Contains(name, "TOKEN") || strings.Contains(name, "_KEY") || strings.Contains(name, "SECRET") || strings.Contains(name, "PASS") {
			t.Errorf("it gets %s", name)
		}
	}
	if !slices.Contains(info.Warnings, "KUBECONFIG=/k") {
		t.Error("a backend of any name is not told where an engine is")
	}
}

// TestStartFailures: each way not to start has its own sentence.
func TestStartFailures(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "boxwright-backend-fake")
	os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o644)
	for name, c := range map[string]struct {
		role   string
		change func(*pluginhost.Config)
		kind   core.Kind
		text   string
	}{
		"missing":        {"", func(c *pluginhost.Config) { c.Path = "" }, core.ErrUnavailable, "/boxwright-backend-fake (not there)"},
		"not executable": {"", func(c *pluginhost.Config) { c.Path = notExecutable }, core.ErrUnavailable, "not executable"},
		"plugin's name":  {"", func(c *pluginhost.Config) { c.Path, c.Plugin = "", "other" }, core.ErrUnavailable, "/boxwright-backend-other (not there)"},
		"bad name":       {"", func(c *pluginhost.Config) { c.Name = "../x" }, core.ErrInvalid, "not a name"},
		"checksum":       {"", func(c *pluginhost.Config) { c.SHA256 = strings.Repeat("0", 64) }, core.ErrInvalid, "is not the file whose checksum"},
		"bad checksum":   {"", func(c *pluginhost.Config) { c.SHA256 = "abc" }, core.ErrInvalid, "64 hexadecimal"},
		"rubbish":        {"rubbish", nil, core.ErrUnavailable, "is not a backend plugin"},
		"crash":          {"crash", nil, core.ErrUnavailable, "stopped before it was ready (exit status 7); it said: cannot find my own feet"},
		"newer":          {"newer", nil, core.ErrUnavailable, "speaks another version of the protocol"},
		"hang":           {"silent", func(c *pluginhost.Config) { c.StartTimeout = 300 * time.Millisecond }, core.ErrUnavailable, "did not answer within 300ms"},
		"hang in config": {"hang", func(c *pluginhost.Config) { c.StartTimeout = time.Second }, core.ErrUnavailable, "did not accept its configuration in time"},
		"hang in info":   {"mute", func(c *pluginhost.Config) { c.InfoTimeout = 300 * time.Millisecond }, core.ErrUnavailable, "did not tell about itself within 300ms"},
		"settings":       {"", func(c *pluginhost.Config) { c.Settings = []byte(`{"unknown":1}`) }, core.ErrInvalid, `no key "unknown"`},
		"no program":     {"", func(c *pluginhost.Config) { c.Path = textFile(t) }, core.ErrUnavailable, "did not start"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, c.role)
			if c.change != nil {
				c.change(&cfg)
			}
			_, err := start(t, cfg).Info(t.Context())
			if core.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %s: %v", core.KindOf(err), err)
			}
		})
	}
}

func TestInstalled(t *testing.T) {
	for want, cfg := range map[string]pluginhost.Config{
		"":                                {Name: "fake", Path: os.Args[0]},
		"/boxwright-backend-fake":         {Name: "fake"},
		"/boxwright-backend-other":        {Name: "fake", Plugin: "other"},
		"it is not installed (its plugin": {Name: "fake", Path: "/nowhere"},
	} {
		err := pluginhost.Installed(cfg)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || core.KindOf(err) != core.ErrUnavailable) {
			t.Errorf("%+v: got %v, want %q", cfg, err, want)
		}
	}
}

// TestOneFaultyPluginLeavesTheOthers: whatever one does, another goes on.
func TestOneFaultyPluginLeavesTheOthers(t *testing.T) {
	var faulty []*pluginhost.Plugin
	for _, role := range []string{"rubbish", "silent", "crash", "newer", "hang", "mute", "flood"} {
		cfg := config(t, role)
		cfg.EnvAllow, cfg.Name = []string{roleKey + "=" + role}, role
		cfg.StartTimeout, cfg.InfoTimeout = 5*time.Second, 5*time.Second
		faulty = append(faulty, start(t, cfg))
	}
	good := config(t, "")
	good.EnvAllow = []string{roleKey + "="}
	p := start(t, good)
	var all sync.WaitGroup
	for _, f := range faulty {
		all.Go(func() { _, _ = f.Info(t.Context()) })
	}
	box, err := p.Create(t.Context(), spec())
	if err == nil {
		err = p.Destroy(t.Context(), box.ID)
	}
	if err != nil {
		t.Error(err)
	}
	all.Wait()
	if _, err := p.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

func textFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text")
	os.WriteFile(path, []byte("not a program"), 0o755)
	return path
}

func TestRightChecksumStarts(t *testing.T) {
	cfg := config(t, "")
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	io.Copy(sum, file)
	cfg.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if _, err := start(t, cfg).Info(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMendedPluginStarts puts the executable in place after the first failure.
func TestMendedPluginStarts(t *testing.T) {
	cfg := config(t, "")
	cfg.Path = filepath.Join(t.TempDir(), "boxwright-backend-fake")
	p := start(t, cfg)
	if _, err := p.Info(t.Context()); core.KindOf(err) != core.ErrUnavailable {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], cfg.Path); err != nil {
		t.Fatal(err)
	}
	becomes(t, func() error { _, err := p.Info(t.Context()); return err })
}

// becomes waits until f succeeds.
func becomes(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func TestKilledPluginIsStartedAgain(t *testing.T) {
	p := start(t, config(t, ""))
	for round := range 3 {
		if _, err := p.Info(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		box, err := p.Create(t.Context(), spec())
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.Dial(t.Context(), box.ID)
		if err != nil {
			t.Fatal(err)
		}
		hanging := make(chan error, 1)
		go func() {
			_, err := p.Create(t.Context(), core.BoxSpec{Image: "hang"})
			hanging <- err
		}()
		time.Sleep(50 * time.Millisecond) // it should be on its way; if not, the test is only weaker
		syscall.Kill(p.PID(), syscall.SIGKILL)
		err = <-hanging
		if core.KindOf(err) != core.ErrUnavailable || core.HintOf(err) == "" || !strings.Contains(err.Error(), "stopped while making a box") {
			t.Errorf("round %d: the call under way: %v", round, err)
		}
		if _, err := io.ReadAll(stream); core.KindOf(err) != core.ErrUnavailable {
			t.Errorf("round %d: the stream: %v", round, err)
		}
		stream.Close()
	}
	becomes(t, func() error { _, err := p.Info(t.Context()); return err })
}

// TestRepeatableCallSurvivesADeath: the plugin dies while it removes a box; the next one does it.
func TestRepeatableCallSurvivesADeath(t *testing.T) {
	p := start(t, config(t, ""))
	mark := filepath.Join(t.TempDir(), "mark")
	removed := make(chan error, 1)
	go func() { removed <- p.Destroy(t.Context(), "hang once:"+mark) }()
	becomes(t, func() error { _, err := os.Stat(mark); return err })
	syscall.Kill(p.PID(), syscall.SIGKILL)
	if err := <-removed; err != nil {
		t.Error(err)
	}
}

func spec() core.BoxSpec {
	return core.BoxSpec{Image: executiontest.FakeImage, Limits: core.DefaultLimits(), Labels: core.Labels{Instance: "test"}}
}

func TestCallsRespectTheirCtxWhileItStarts(t *testing.T) {
	p := start(t, config(t, "silent"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Info(ctx); core.KindOf(err) != core.ErrTimeout {
		t.Errorf("got %v", err)
	}
	cancelled, cancel2 := context.WithCancel(t.Context())
	cancel2()
	if _, err := p.Info(cancelled); core.KindOf(err) != core.ErrCancelled {
		t.Errorf("got %v", err)
	}
}

func TestCloseWhileItStarts(t *testing.T) {
	p := start(t, config(t, "silent"))
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.Info(t.Context()); core.KindOf(err) != core.ErrUnavailable {
		t.Errorf("a call after Close: %v", err)
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	p := start(t, config(t, ""))
	if _, err := p.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := p.PID()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// TestPluginHasItsOwnGroup: a terminal's Ctrl-C must not reach it.
func TestPluginHasItsOwnGroup(t *testing.T) {
	p := start(t, config(t, ""))
	if _, err := p.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(p.PID())
	if err != nil || group != p.PID() {
		t.Errorf("its group is %d, %v", group, err)
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		syscall.Kill(p.PID(), s)
	}
	if _, err := p.Info(t.Context()); err != nil {
		t.Errorf("it did not survive what a service manager sends: %v", err)
	}
}

// counter is a log that counts.
type counter struct {
	slog.Handler
	keys *[]string // of the attributes that every line has

	mu      *sync.Mutex
	lines   *int
	bytes   *int
	dropped *int64
}

func newCounter() counter {
	return counter{keys: new([]string), mu: new(sync.Mutex), lines: new(int), bytes: new(int), dropped: new(int64)}
}

func (c counter) Enabled(context.Context, slog.Level) bool { return true }
func (c counter) WithGroup(string) slog.Handler            { return c }

func (c counter) WithAttrs(attrs []slog.Attr) slog.Handler {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range attrs {
		*c.keys = append(*c.keys, a.Key+"="+a.Value.String())
	}
	return c
}

func (c counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.lines++
	*c.bytes += len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "backend" {
			*c.keys = append(*c.keys, "twice")
		}
		if a.Key == "lines" && strings.Contains(r.Message, "lines were dropped") {
			*c.dropped += a.Value.Int64()
		}
		return true
	})
	return nil
}

func TestFloodedLogIsBounded(t *testing.T) {
	log := newCounter()
	cfg := config(t, "flood")
	cfg.Logger = slog.New(log)
	p := start(t, cfg)
	begin := time.Now()
	for range 20 {
		if _, err := p.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	becomes(t, func() error {
		log.mu.Lock()
		defer log.mu.Unlock()
		if *log.dropped == 0 {
			return errors.New("nothing says how many lines were dropped")
		}
		return nil
	})
	seconds := int(time.Since(begin).Seconds()) + 3
	log.mu.Lock()
	defer log.mu.Unlock()
	if most := seconds * 3 * 220; *log.lines > most || *log.bytes > most*5000 {
		t.Errorf("%d lines with %d bytes reached the log in %d s", *log.lines, *log.bytes, seconds)
	}
	if *log.lines < 10 {
		t.Error("nothing reached the log")
	}
}

// Each line names its backend, once.
func TestLogNamesTheBackend(t *testing.T) {
	log := newCounter()
	cfg := config(t, "")
	cfg.Logger = slog.New(log)
	if _, err := start(t, cfg).Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if slices.Contains(*log.keys, "twice") || !slices.Contains(*log.keys, "backend=fake") || slices.Contains(*log.keys, "plugin=fake") {
		t.Errorf("lines have %q", *log.keys)
	}
}
