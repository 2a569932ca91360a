// Package sdktest launches a plugin executable for a test, so that the suite of the execution
// port can check it as the server would reach it. It launches once and does not restart: that is
// the plugin host's business.
package sdktest

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/boxwright/boxwright/plugins/sdk"
)

// Options say how to launch. The zero value runs the executable without arguments and
// environment.
type Options struct {
	Args   []string
	Env    []string     // the plugin's whole environment, besides what the handshake needs
	Config sdk.Config   // sent by Configure
	Logger hclog.Logger // nil discards
	// Process are attributes of the plugin's process, such as whose it is; nil is this process's user.
	Process *syscall.SysProcAttr
}

// Spawn launches the executable at path, configures it, and returns its backend. The process
// ends with the test.
func Spawn(tb testing.TB, path string, o Options) *sdk.Client {
	tb.Helper()
	backend, stop, err := Launch(tb.Context(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return backend
}

// Launch is Spawn for programs that are not tests. stop ends the process and waits for it.
func Launch(ctx context.Context, path string, o Options) (backend *sdk.Client, stop func(), err error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	cmd := exec.Command(path, o.Args...) //nolint:gosec // launching what it is given is its purpose
	cmd.Env = append([]string{}, o.Env...)
	cmd.SysProcAttr = o.Process
	process := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake(),
		VersionedPlugins: sdk.Plugins(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              cmd,
		AutoMTLS:         true,
		SkipHostEnv:      true,
		Logger:           o.Logger,
	})
	backend, err = connect(ctx, process, o.Config)
	if err != nil {
		process.Kill()
		return nil, nil, err
	}
	return backend, process.Kill, nil
}

func connect(ctx context.Context, process *plugin.Client, cfg sdk.Config) (*sdk.Client, error) {
	rpc, err := process.Client()
	if err != nil {
		return nil, err
	}
	raw, err := rpc.Dispense(sdk.PluginName)
	if err != nil {
		return nil, err
	}
	backend, ok := raw.(*sdk.Client)
	if !ok {
		return nil, errors.New("the SDK's own plugin set made something else than its client")
	}
	return backend, backend.Configure(ctx, cfg)
}
