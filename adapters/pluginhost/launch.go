package pluginhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

// process is one life of a plugin.
type process struct {
	client  *plugin.Client
	runner  *command
	backend *sdk.Client
}

func (p *process) pid() int              { return p.runner.pid() }
func (p *process) done() <-chan struct{} { return p.runner.gone }
func (p *process) lives() bool {
	select {
	case <-p.done():
		return false
	default:
		return true
	}
}

func (p *process) exit() string { return p.runner.exit() }
func (p *process) kill()        { p.runner.kill() }

// close asks the process to leave, kills it if it does not, and frees what belongs to it.
func (p *process) close() { p.client.Kill() }

// launch starts the plugin and configures it. When ctx ends, the process is killed.
func launch(ctx context.Context, cfg Config, log *slog.Logger) (*process, error) {
	path, err := find(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkSum(cfg, path); err != nil {
		return nil, err
	}
	notes := &tail{}
	cmd := newCommand(path, environment(cfg.EnvAllow), newLineLog(log.With("stream", "stdout")))
	client := plugin.NewClient(clientConfig(cfg, cmd, log, notes))
	stop := context.AfterFunc(ctx, cmd.kill)
	defer stop()
	backend, err := connect(ctx, cfg, client)
	if err != nil {
		cmd.kill()
		client.Kill()
		return nil, explainStart(ctx, cfg, path, cmd, notes, err)
	}
	return &process{client: client, runner: cmd, backend: backend}, nil
}

func clientConfig(cfg Config, cmd *command, log *slog.Logger, notes *tail) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake(),
		VersionedPlugins: sdk.Plugins(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     cfg.StartTimeout,
		Stderr:           notes,
		SyncStdout:       newLineLog(log.With("stream", "stdout")),
		SyncStderr:       newLineLog(log.With("stream", "stderr")),
		Logger:           newBridge(log),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			cmd.addEnv(spec.Env)
			return cmd, nil
		},
	}
}

func connect(ctx context.Context, cfg Config, client *plugin.Client) (*sdk.Client, error) {
	rpc, err := client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := rpc.Dispense(sdk.PluginName)
	if err != nil {
		return nil, err
	}
	backend, ok := raw.(*sdk.Client)
	if !ok {
		return nil, errors.New("the SDK returned something else than its client")
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	return backend, backend.Configure(ctx, sdk.Config{
		Settings: cfg.Settings,
		Agents:   cfg.Agents,
		Instance: cfg.Instance,
		Server:   cfg.Server,
	})
}

// checkSum refuses a file that is not the one the operator pinned.
func checkSum(cfg Config, path string) error {
	if cfg.SHA256 == "" {
		return nil
	}
	want, err := hex.DecodeString(strings.TrimPrefix(strings.ToLower(cfg.SHA256), "sha256:"))
	if err != nil || len(want) != sha256.Size {
		return core.Errorf(core.ErrInvalid, "the checksum of the backend plugin %s is not 64 hexadecimal digits", cfg.Name)
	}
	same, err := (&plugin.SecureConfig{Checksum: want, Hash: sha256.New()}).Check(path)
	if err != nil {
		return core.Errorf(core.ErrUnavailable, "the backend plugin %s cannot be read: %w", path, err)
	}
	if !same {
		return core.Errorf(core.ErrInvalid, "the backend plugin %s is not the file whose checksum is configured; it was not started", path).
			WithHint("after an upgrade, put the new file's SHA-256 into the config")
	}
	return nil
}

// environment is what the plugin gets to see: NAME passes the host's own on, NAME=VALUE sets one.
func environment(allow []string) []string {
	var env []string
	for _, entry := range allow {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		} else if value, has := os.LookupEnv(entry); has {
			env = append(env, entry+"="+value)
		}
	}
	return env
}

// DefaultEnv names the variables that every backend gets: where programs, files and engines
// are. None of them holds a secret, and nothing else of the host's is passed on; one list serves
// all engines, whatever the backend's name.
func DefaultEnv() []string {
	return []string{
		"PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
		"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION",
		"CONTAINER_HOST", "CONTAINER_CONNECTION",
		"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
	}
}
