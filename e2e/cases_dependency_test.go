package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
)

func packages(names ...string) args { return args{"dependencies": names} }

// dependencyCases install from the real index.
func dependencyCases() []testCase {
	return []testCase{
		{
			id: "B22 the installer's output", code: "print(1)", with: packages("requests"),
			want: outcome{stdout: "1\n"},
			also: func(t *testing.T, _ *server, r result) { holds(t, strings.ToLower(r.InstallLog), "requests") },
		},
		{
			id: "B81 native wheels",
			code: `import os, threading
import numpy as np, pandas as pd
print(pd.DataFrame({'a': [1]}).sum())
t = threading.Thread(target=lambda: print(np.arange(3).sum())); t.start(); t.join()
if os.fork() == 0: os._exit(0)
print(os.wait()[1])`,
			with: packages("numpy", "pandas"),
			want: outcome{stdout: "a    1\ndtype: int64\n3\n0\n"},
		},
		{
			id: "B83 packages of the image", code: "import numpy, six; print(six.__version__)", with: args{"image": preinstalledImage},
			want: outcome{stdout: "1.17.0\n"},
		},
		{
			id: "B83 packages of the image and installed ones", code: "import numpy, idna; print(numpy.__version__)",
			with: args{"image": preinstalledImage, "dependencies": []string{"idna"}},
			want: outcome{stdout: "2.3.5\n"},
		},
		{
			id: "B83 packages of the image are not installed again", code: "import numpy, sys; print(numpy.__version__, 'envs' in numpy.__file__)",
			with: args{"image": preinstalledImage, "dependencies": []string{"numpy>=2", "six"}},
			want: outcome{stdout: "2.3.5 False\n"},
			also: func(t *testing.T, _ *server, r result) {
				holds(t, r.InstallLog, "in the image already: numpy 2.3.5, six 1.17.0")
			},
		},
		{
			id: "B84 extras and versions", code: "import requests, socks; print(requests.__version__.split('.')[0])",
			with: packages("requests[socks]>=2,<3"),
			want: outcome{stdout: "2\n"},
		},
		{
			id: "B84 a marker that does not hold", code: "import importlib.util; print(importlib.util.find_spec('tomli'))",
			with: packages(`tomli; python_version<"3.11"`),
			want: outcome{stdout: "None\n"},
		},
		{id: "B84 options, paths, links, shell", play: badRequirements},
		{
			id: "B85 unknown package", code: "print('ran')", with: packages("no-such-pkg-zz9"),
			want: outcome{refused: "dependency", says: []string{"no-such-pkg-zz9"}},
		},
		{
			id: "B85 no such version", code: "print('ran')", with: packages("six==0.0.1"),
			want: outcome{refused: "dependency", says: []string{"six"}},
		},
		{id: "B86 the same again", play: installedOnce},
		{id: "B86 the same at once", play: installedTogether},
		{
			id:   "B87 time zones",
			code: "import datetime, zoneinfo; print(datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo('Asia/Tokyo')).utcoffset())",
			want: outcome{stdout: "9:00:00\n"},
		},
		{
			id:   "B89 no display",
			code: "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()", with: packages("matplotlib"),
			want: outcome{any: true},
			also: func(t *testing.T, _ *server, r result) {
				if r.Stdout != "" || r.Stderr != "" || len(r.images) != 1 || len(r.Warnings) > 0 {
					t.Errorf("%d images, %.4000s", len(r.images), r.raw)
				}
			},
		},
		{id: "B90 no network", play: noNetwork},
	}
}

func badRequirements(t *testing.T, s *server) {
	for requirement, why := range map[string]string{
		"--index-url=https://index.example":   "is an option of the installer",
		"-r /etc/passwd":                      "is an option of the installer",
		"-e .":                                "is an option of the installer",
		"x; touch /tmp/p":                     "",
		"x && touch p":                        "has versions that cannot be read",
		"git+https://code.example/x":          "is a link",
		"x @ https://files.example/x.whl":     "is a link",
		"./x":                                 "is a path",
		"/etc/passwd":                         "is a path",
		"six\n--index-url=https://x.example/": "holds a character that no requirement has",
		"six==":                               "has versions that cannot be read",
		"ж":                                   "holds a character that no requirement has",
	} {
		r := s.run(t, program("print('ran')", "dependencies", []string{"six", requirement}))
		outcome{refused: "invalid", says: []string{why, "a requirement is a package name"}}.check(t, r)
	}
}

func installedOnce(t *testing.T, s *server) {
	again := program("import idna; print(idna.encode('ж'))", "dependencies", []string{"idna==3.10"})
	want := outcome{stdout: "b'xn--f1a'\n"}
	first := s.run(t, again)
	want.check(t, first)
	if first.InstallLog == "" || first.DurationMS["dependencies"] <= 0 {
		t.Errorf("the first run installed nothing: %.2000s", first.raw)
	}
	second := s.run(t, again)
	want.check(t, second)
	if second.InstallLog != "" {
		t.Errorf("the second run installed again: %s", second.InstallLog)
	}
}

// installedTogether: who asks for the same at the same time shares one installation.
func installedTogether(t *testing.T, _ *server) {
	s := serve(t, setup{})
	var calls []*call
	for range 10 {
		calls = append(calls, s.send(t, program("import six; print(six.__name__)", "dependencies", []string{"six"}), nil))
	}
	for _, c := range calls {
		outcome{stdout: "six\n"}.check(t, c.wait(t))
	}
	if n := s.installed(); n != 1 {
		t.Errorf("installed %d times", n)
	}
}

// noNetwork tries what leads out, also to a listener of this machine that surely answers, while
// packages are still installed.
func noNetwork(t *testing.T, s *server) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Errorf("a connection from %s arrived", c.RemoteAddr())
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	hosts, _ := json.Marshal(append(hostAddresses(), "127.0.0.1", "::1", "10.0.2.2")) // the last is where slirp4netns has the host
	code := `import json, socket, sys, six
asked = json.load(sys.stdin)
for host, port in [['1.1.1.1', 53], ['169.254.169.254', 80], ['host.docker.internal', 80], ['example.com', 443],
                   ['2606:4700:4700::1111', 53], *[[host, asked['port']] for host in asked['hosts']]]:
    try: socket.create_connection((host, port), 2); print(host, 'is open')
    except OSError: pass
for host in 'example.com', 'host.docker.internal':
    try: socket.getaddrinfo(host, 443); print(host, 'is known')
    except OSError: pass
for family, host in (socket.AF_INET, '8.8.8.8'), (socket.AF_INET6, '2001:4860:4860::8888'):
    try: socket.socket(family, socket.SOCK_DGRAM).sendto(b'x', (host, 53)); print(host, 'can be sent to')
    except OSError: pass
print(open('/proc/net/route').read().count('\n'), 'routes')
server = socket.create_server(('127.0.0.1', 0)); socket.create_connection(server.getsockname()); print('loopback works')`
	r := s.run(t, program(code, "dependencies", []string{"six"}, "stdin", fmt.Sprintf(`{"hosts":%s,"port":%s}`, hosts, port)))
	outcome{stdout: "1 routes\nloopback works\n"}.check(t, r)
}
