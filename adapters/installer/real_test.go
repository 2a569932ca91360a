package installer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// The tests of this file run real package managers in a container against a small index of their own.

// withTools runs a test with uv and with pip, each in a container that reaches this machine's loopback interface.
func withTools(t *testing.T, test func(t *testing.T, b *bench), options ...string) {
	t.Helper()
	for _, tool := range []string{"uv", "pip"} {
		t.Run(tool, func(t *testing.T) {
			if len(options) == 0 {
				options = []string{"--network", "host"}
			}
			b := &bench{dockerGuest: container(t, options...), tool: tool}
			if tool == "uv" {
				b.bringUV(t)
			}
			test(t, b)
		})
	}
}

// bench is a container to install in.
type bench struct {
	dockerGuest
	tool string
}

// bringUV puts uv into the container: the one that the tests have, else the index's.
func (b *bench) bringUV(t *testing.T) {
	t.Helper()
	if uv := os.Getenv("BOXWRIGHT_UV"); uv != "" {
		if out, err := exec.Command("docker", "cp", "--follow-link", uv, b.container+":/usr/local/bin/uv").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	p := New(Options{CABundle: os.Getenv("SSL_CERT_FILE")})
	j := p.newJob(b, nil, nil)
	if _, err := j.prepare(t.Context(), core.Ready{}, nil); err != nil {
		t.Fatal(err)
	}
	if fetched, err := j.fetchUV(t.Context()); !fetched || err != nil {
		t.Fatalf("uv could not be fetched: %v", err)
	}
	b.shell(t, "cp "+j.cachedUV()+" /usr/local/bin/uv")
}

// outcome is all that an installation lets anybody see.
type outcome struct {
	core.Installed
	err  error
	told string // progress and log
}

func (o outcome) everything() string {
	return o.Lock + o.Report + o.told + fmt.Sprint(o.err) + core.HintOf(o.err)
}

// install begins with nothing in the environment and in the cache.
func (b *bench) install(t *testing.T, options Options, texts ...string) outcome {
	t.Helper()
	b.shell(t, "rm -rf "+core.GuestWork+"/* "+core.GuestEnvironment+"/* "+core.GuestEnvironment+"/.[!.]* "+core.GuestCache+"/*")
	return b.installMore(t, options, texts...)
}

func (b *bench) installMore(t *testing.T, options Options, texts ...string) outcome {
	t.Helper()
	var told bytes.Buffer
	options.Logger = slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := New(options)
	p.withoutUV.Store(math.MaxInt64)
	list, err := core.RequirementPolicy{Links: true, Builds: true}.Parse(texts)
	if err != nil {
		t.Fatal(err)
	}
	installed, err := p.Install(t.Context(), b, core.Ready{}, list, func(p core.Progress) { fmt.Fprintln(&told, p.Message) })
	return outcome{Installed: installed, err: err, told: told.String()}
}

// refused checks that an installation failed, with a sentence.
func (o outcome) refused(t *testing.T, sentence string) {
	t.Helper()
	if core.KindOf(o.err) != core.ErrDependency || !strings.Contains(o.err.Error(), sentence) || o.Lock != "" || len(o.err.Error()) > 2500 {
		t.Errorf("want %q, got %v", sentence, o.err)
	}
}

// has checks that a version of a package can be imported from the environment, and is what the lock says.
func (b *bench) has(t *testing.T, o outcome, name, version string, content []byte) {
	t.Helper()
	if o.err != nil {
		t.Fatalf("%v\n%s", o.err, core.HintOf(o.err))
	}
	if want := name + "==" + version + " \\\n    --hash=sha256:" + hashOf(content) + "\n"; !strings.Contains(o.Lock, want) {
		t.Errorf("the lock lacks %q:\n%s", want, o.Lock)
	}
	b.shell(t, "PYTHONPATH="+core.GuestEnvironment+" python3 -c 'import "+name+", importlib.metadata as m; assert m.version(\""+name+"\") == \""+version+"\"'")
}

// TestPrivateIndex: basic auth and a private certificate authority, and the password is nowhere but there.
func TestPrivateIndex(t *testing.T) {
	const user, password = "corp user", "hunter2/+s3cret@"
	x := &index{user: user, password: password}
	x.offer(t, "corp", "1.0", nil, nil)
	address, bundle := x.serveTLS(t)
	good := Options{IndexURL: withPassword("https", user, password, address, "/simple/"), CABundle: bundle}
	withTools(t, func(t *testing.T, b *bench) {
		o := b.install(t, good, "corp")
		b.has(t, o, "corp", "1.0", x.wheels["corp"][wheelName("corp", "1.0")])
		missing := b.installMore(t, good, "not-there")
		missing.refused(t, "not-there")
		bad := good
		bad.IndexURL = withPassword("https", user, "wr0ng-55aa", address, "/simple/")
		wrong := b.install(t, bad, "corp")
		wrong.refused(t, "")
		bad = good
		bad.CABundle = ""
		b.install(t, bad, "corp").refused(t, "certificate is not trusted")
		for _, o := range []outcome{o, missing, wrong} {
			for _, secret := range []string{"hunter2", "s3cret", "wr0ng"} {
				if strings.Contains(o.everything(), secret) {
					t.Errorf("%q is told: %s", secret, o.everything())
				}
			}
		}
		b.install(t, good, "corp")
		if found := b.shell(t, "grep -rl hunter2 "+core.GuestEnvironment+" "+core.GuestCache+" || true"); found != "" {
			t.Errorf("the password is kept in %s", found)
		}
	})
}

// TestProxy: the index's name means nothing but to the proxy, which asks for a password.
func TestProxy(t *testing.T) {
	x := &index{}
	x.offer(t, "corp", "1.0", nil, nil)
	to, bundle := x.serveTLS(t)
	address, passed := proxy(t, "proxy-user", "pr0xy-secret", to)
	good := Options{IndexURL: "https://index.test/simple", CABundle: bundle, HTTPSProxy: withPassword("http", "proxy-user", "pr0xy-secret", address, "")}
	withTools(t, func(t *testing.T, b *bench) {
		before := passed()
		o := b.install(t, good, "corp")
		b.has(t, o, "corp", "1.0", x.wheels["corp"][wheelName("corp", "1.0")])
		bad := good
		bad.HTTPSProxy = withPassword("http", "proxy-user", "wr0ng-55aa", address, "")
		wrong := b.install(t, bad, "corp")
		wrong.refused(t, "proxy")
		if all := o.everything() + wrong.everything(); passed() == before || strings.Contains(all, "pr0xy-secret") || strings.Contains(all, "wr0ng") {
			t.Errorf("%d connections; told: %s", passed()-before, all)
		}
	})
}

// TestOffline: with a folder of wheels and no network at all.
func TestOffline(t *testing.T) {
	folder := wheelFolder(t)
	if err := os.Remove(filepath.Join(folder, wheelName("corp_late", "1.0"))); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(folder, wheelName("corp", "1.0")))
	if err != nil {
		t.Fatal(err)
	}
	withTools(t, func(t *testing.T, b *bench) {
		o := b.install(t, Options{Wheels: folder}, "corp")
		b.has(t, o, "corp", "1.0", content)
		if !strings.Contains(o.Lock, "corp-base==1.0 ") {
			t.Errorf("the lock is %s", o.Lock)
		}
		b.install(t, Options{Wheels: folder}, "six").refused(t, "does not exist in the index")
		b.install(t, Options{Wheels: folder}, "corp")
		if left := b.shell(t, "ls -A "+core.GuestEnvironment); left != "corp\ncorp-1.0.dist-info\ncorp_base\ncorp_base-1.0.dist-info\n" {
			t.Errorf("the environment has %s", left)
		}
	}, "--network", "none")
}

// TestNobodyShadowsAPrivatePackage: a stranger's package of the same name, with a higher version, in the public index.
func TestNobodyShadowsAPrivatePackage(t *testing.T) {
	private, public := &index{user: "u", password: "pass-word"}, &index{}
	private.offer(t, "corp", "1.0", []string{"helper"}, nil)
	public.offer(t, "corp", "2.0", nil, nil)
	public.offer(t, "helper", "3.0", nil, nil)
	privateURL, publicURL := withPassword("http", "u", "pass-word", private.serve(t), "/simple"), "http://"+public.serve(t)+"/simple"
	withTools(t, func(t *testing.T, b *bench) {
		for _, options := range []Options{
			{IndexURL: privateURL, ExtraIndexURLs: []string{publicURL}},
			{IndexURL: publicURL, ExtraIndexURLs: []string{privateURL}},
		} {
			o := b.install(t, options, "corp")
			if b.tool == "pip" {
				o.refused(t, "several package indexes need uv")
				continue
			}
			b.has(t, o, "corp", "1.0", private.wheels["corp"][wheelName("corp", "1.0")])
			b.has(t, o, "helper", "3.0", public.wheels["helper"][wheelName("helper", "3.0")])
			b.install(t, options, "corp==2.0").refused(t, "version")
		}
	})
}

// sourceOf is a package without a wheel. Its build writes down what cache it sees.
func sourceOf(t *testing.T, name string) []byte {
	t.Helper()
	backend := `import base64, os
def build_wheel(folder, *args):
    name = "` + wheelName(name, "1.0") + `"
    with open(os.path.join(folder, name), "wb") as f:
        f.write(base64.b64decode("` + base64.StdEncoding.EncodeToString(wheelOf(t, name, "1.0", nil, nil)) + `"))
    return name
`
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	w := tar.NewWriter(compressed)
	for file, text := range map[string]string{
		"PKG-INFO":       "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n[project]\nname = \"" + name + "\"\nversion = \"1.0\"\n",
		"backend.py":     backend,
	} {
		if err := w.WriteHeader(&tar.Header{Name: name + "-1.0/" + file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestSourceBuilds: only by policy, and then with a cache of their own.
func TestSourceBuilds(t *testing.T) {
	source := sourceOf(t, "built")
	x := &index{wheels: map[string]map[string][]byte{"built": {"built-1.0.tar.gz": source}}}
	options := Options{IndexURL: "http://" + x.serve(t) + "/simple"}
	withTools(t, func(t *testing.T, b *bench) {
		b.install(t, options, "built").refused(t, "")
		building := options
		building.AllowSourceBuilds = true
		b.has(t, b.install(t, building, "built"), "built", "1.0", source)
		if left := b.shell(t, "ls -A "+core.GuestCache); left != "" {
			t.Errorf("the cache of others has %s", left)
		}
		if left := b.shell(t, "ls -A "+core.GuestEnvironment); left != "built\nbuilt-1.0.dist-info\n" {
			t.Errorf("the environment has %s", left)
		}
	})
}

// TestLink: a package from where the requirement says.
func TestLink(t *testing.T) {
	x := &index{}
	x.offer(t, "corp", "1.0", nil, nil)
	content := x.wheels["corp"][wheelName("corp", "1.0")]
	address, bundle := x.serveTLS(t)
	link := "https://" + address + "/files/corp/" + wheelName("corp", "1.0")
	withTools(t, func(t *testing.T, b *bench) {
		options := Options{IndexURL: "https://" + address + "/simple", CABundle: bundle}
		o := b.install(t, options, "corp @ "+link)
		if want := "corp @ " + link + " \\\n    --hash=sha256:" + hashOf(content) + "\n"; o.err != nil || o.Lock != want {
			t.Errorf("the lock is %q, %v", o.Lock, o.err)
		}
		b.shell(t, "PYTHONPATH="+core.GuestEnvironment+" python3 -c 'import corp'")
		b.install(t, options, "corp @ "+link+"#sha256="+sixHash).refused(t, "what the index sent is not what it promised")
	})
}
