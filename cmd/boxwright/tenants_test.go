package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
)

// users is an authenticator whose tokens are the users' names.
type users []string

// Authenticate implements web.Authenticator.
func (u users) Authenticate(_ context.Context, c web.Credential) (core.Principal, error) {
	for _, name := range u {
		if c.Token == name {
			return core.Principal{ID: name, Credential: "key of " + name}, nil
		}
	}
	return core.Principal{}, core.Errorf(core.ErrDenied, "nobody has this key")
}

// TestNobodySeesAnothers: two users, each over both ways of HTTP, do what they like at the same time, and try each
// other's ids. Neither ever sees a word of the other's, and another's id is as one that nobody has.
func TestNobodySeesAnothers(t *testing.T) {
	c := settingsFrom(t, "", map[string]string{"http.listen": "127.0.0.1:0", "pool.enabled": "false", "images.pull": "never"})
	c.Backends = map[string]config.Backend{"docker": {Path: dockerPlugin(t)}}
	s := wired(t, c)
	requireDocker(t, func() error {
		_, err := s.service.RunOnce(t.Context(), core.Request{Code: "print(1)", Tenant: localTenant}, nil)
		return err
	})
	r, err := openHTTP(t.Context(), c, s, newServer(c, s), users{"ann", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.serve(ctx) }()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	known := &ids{of: map[string][]string{}}
	var all sync.WaitGroup
	for i, user := range []string{"ann", "bob", "ann", "bob"} {
		u := &tenant{T: t, name: user, other: map[string]string{"ann": "bob", "bob": "ann"}[user], known: known, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		u.connect(r.listener.Addr().String(), i < 2)
		all.Go(u.play)
	}
	all.Wait()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// ids are those that each user has been told: of runs, sandboxes and files.
type ids struct {
	mu sync.Mutex
	of map[string][]string
}

func (k *ids) learn(user, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[user] = append(k.of[user], regexp.MustCompile(`boxwright://runs/[a-z0-9]{26}/[\w.-]+|\b[a-z0-9]{26}\b`).FindAllString(text, -1)...)
}

// pick returns an id of the user's that matches, or one of nobody's.
func (k *ids) pick(user string, isFile bool, r *rand.Rand) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.of[user]
	for range 20 {
		if len(all) == 0 {
			break
		}
		if id := all[r.IntN(len(all))]; strings.HasPrefix(id, "boxwright:") == isFile {
			return id
		}
	}
	return nobodys(isFile)
}

func nobodys(isFile bool) string {
	id := strings.Repeat("z", 26)
	if isFile {
		return "boxwright://runs/" + id + "/secret.txt"
	}
	return id
}

// tenant is a user's client.
type tenant struct {
	*testing.T
	*client.Client
	name, other string
	known       *ids
	rand        *rand.Rand
}

func (u *tenant) connect(address string, streamable bool) {
	headers := map[string]string{"Authorization": "Bearer " + u.name}
	var err error
	if streamable {
		u.Client, err = client.NewStreamableHttpClient("http://"+address+"/mcp", transport.WithHTTPHeaders(headers))
	} else {
		u.Client, err = client.NewSSEMCPClient("http://"+address+"/sse", client.WithHeaders(headers))
	}
	if err != nil {
		u.Fatal(err)
	}
	u.Cleanup(func() { _ = u.Close() })
	if err := u.Start(u.Context()); err != nil {
		u.Fatal(err)
	}
	if _, err := u.Initialize(u.Context(), mcp.InitializeRequest{}); err != nil {
		u.Fatal(err)
	}
}

func (u *tenant) play() {
	code := fmt.Sprintf("secret = 'secret-of-%s'\nopen('secret.txt', 'w').write(secret)\nprint(secret)", u.name)
	for range 12 {
		switch u.rand.IntN(6) {
		case 0:
			u.use("run_python_ephemeral", map[string]any{"code": code})
		case 1:
			u.use("run_python", map[string]any{"code": code})
		case 2:
			u.use("list_sandboxes", nil)
			u.use("list_runs", nil)
		case 3:
			u.use("read_file", map[string]any{"path": "secret.txt"})
			u.use("get_run", map[string]any{"run_id": u.known.pick(u.name, false, u.rand)})
		default:
			u.trespass()
		}
	}
}

// trespass tries an id of the other's.
func (u *tenant) trespass() {
	tries := []struct {
		tool, argument string
		more           map[string]any
	}{
		{"get_run", "run_id", nil},
		{"cancel_run", "run_id", nil},
		{"read_output", "run_id", map[string]any{"stream": "stdout"}},
		{"run_python", "sandbox_id", map[string]any{"code": "print(secret)"}},
		{"sandbox_exec", "sandbox_id", map[string]any{"command": "cat secret.txt"}},
		{"sandbox_inspect", "sandbox_id", nil},
		{"sandbox_stop", "sandbox_id", nil},
		{"list_files", "sandbox_id", nil},
		{"read_file", "sandbox_id", map[string]any{"path": "secret.txt"}},
		{"write_file", "sandbox_id", map[string]any{"path": "x", "content": "x"}},
	}
	for _, try := range tries {
		answers := map[string]string{}
		for _, id := range []string{u.known.pick(u.other, false, u.rand), nobodys(false)} {
			arguments := map[string]any{try.argument: id}
			maps.Copy(arguments, try.more)
			answers[strings.ReplaceAll(u.use(try.tool, arguments), id, "ID")] = id
		}
		if len(answers) != 1 {
			u.Errorf("%s tells that an id is another's: %v", try.tool, answers)
		}
	}
	uri := u.known.pick(u.other, true, u.rand)
	request := mcp.ReadResourceRequest{}
	request.Params.URI = uri
	if answer, err := u.ReadResource(u.Context(), request); err == nil {
		u.Errorf("%s is answered: %v", uri, answer)
	}
}

// use calls a tool. The answer must not hold a word of the other's.
func (u *tenant) use(tool string, arguments map[string]any) string {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	answer, err := u.CallTool(u.Context(), request)
	if err != nil {
		u.Errorf("%s: %v", tool, err)
		return ""
	}
	line, err := json.Marshal(answer)
	if err != nil {
		u.Error(err)
	}
	text := string(line)
	if strings.Contains(text, "secret-of-"+u.other) {
		u.Errorf("%s got of %s by %s %v: %s", u.name, u.other, tool, arguments, text)
	}
	if !answer.IsError {
		u.known.learn(u.name, text)
	}
	return text
}
