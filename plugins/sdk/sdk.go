// Package sdk turns an execution.Backend into a plugin executable, and a plugin's connection
// into an execution.Backend.
//
// A backend makes the boxes that Boxwright runs code in, on one engine. Whoever has an engine
// implements the eight methods of execution.Backend, writes a main that calls Serve, and names
// the executable boxwright-backend-NAME:
//
//	func main() { sdk.Serve(open) }
//
//	func open(ctx context.Context, cfg sdk.Config) (execution.Backend, error) {
//		var settings Settings
//		if err := sdk.DecodeSettings(cfg.Settings, &settings); err != nil {
//			return nil, err
//		}
//		return newBackend(settings, agentfile.New(cfg.Agents)), nil
//	}
//
// "boxwright plugin new" writes a module with all of it, "boxwright plugin verify" checks an
// executable against every promise of the port, and docs/plugins.md is the guide.
// plugins/example is a whole backend.
//
// Around this package are those that backends share, none of which is obligatory: agentfile finds
// the agent's executable, fetch makes one fetch of what many want, folders keeps boxes and volumes
// for engines that have no labels, execstream makes a stream of a command, daemon is for engines
// with an API, and sdktest starts a plugin for the suite, executiontest.
//
// The host (adapters/pluginhost, sdktest) uses Handshake, Plugins and Client. The package knows the
// wire and nothing of any engine; it does not find, launch or supervise processes. Errors are those
// of core: their kind, sentence and hint arrive as they were sent.
package sdk

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"

	"github.com/boxwright/boxwright/ports/execution"
)

// What host and plugin must agree on, for authors in other languages too.
const (
	// CookieKey is the variable that tells an executable that a host has started it.
	CookieKey = "BOXWRIGHT_PLUGIN"
	// CookieValue is that variable's value.
	CookieValue = "backend"
	// ProtocolVersion is the version of backend.proto, negotiated in the handshake.
	ProtocolVersion = 1
	// PluginName is the name that the host asks go-plugin for.
	PluginName = "backend"
)

// drainTime is how long a plugin that was told to leave lets calls undo what they began. It is
// shorter than the two seconds that go-plugin's host waits before it kills.
const drainTime = 1500 * time.Millisecond

// Config is all that a plugin is told about its host.
type Config struct {
	// Settings is the plugin's own section of the operator's config, a JSON object or nothing: see
	// DecodeSettings.
	Settings json.RawMessage
	// Agents are the paths of the agent's executables, on the plugin's machine, by GOARCH: see
	// agentfile.
	Agents map[string]string
	// Instance is the installation, for what a backend makes by itself, such as a volume for the
	// agent. Boxes and volumes that it is asked for come with their labels.
	Instance string
	// Server is the server process, for the same.
	Server string
	// Logger reaches the host's log. Serve sets it; it is not sent over the wire, and nil where a
	// test calls Open itself.
	Logger hclog.Logger
}

// Open makes the backend, once in a plugin's life. Settings that are wrong are core.ErrInvalid, and
// reach the operator; Open may then be called again. It should not need the engine: one that is not
// there yet is found at the first call. A backend that is an io.Closer is closed when the plugin
// ends, and has a second and a half for it and for the calls that still undo something.
type Open func(ctx context.Context, cfg Config) (execution.Backend, error)

// Handshake is go-plugin's check that plugin and host are meant for one another.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// Plugins lists the protocol versions that this SDK speaks. A host passes nil, and gets a *Client of
// whichever version is agreed upon.
func Plugins(open Open) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &v1{server: newServer(open)}}}
}

// Serve serves the backend that open makes, until the host says so or dies; it is all that a
// plugin's main does. Nothing may have written to stdout before; what is printed there later goes to the
// host's log, as does what is printed to stderr. Serve ignores the signals that a terminal or a
// service manager sends to all, because the host needs the plugin to clean up. An executable that no
// host has started says so and exits with status 1.
func Serve(open Open) {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
	s := newServer(withLogger(open, log))
	outliveSignals()
	go exitWithHost(s)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &v1{server: s}}},
		GRPCServer:       plugin.DefaultGRPCServer,
		Logger:           log,
	})
	s.drain(drainTime)
}

func withLogger(open Open, log hclog.Logger) Open {
	return func(ctx context.Context, cfg Config) (execution.Backend, error) {
		cfg.Logger = log.Named("backend")
		return open(ctx, cfg)
	}
}

type v1 struct {
	plugin.NetRPCUnsupportedPlugin
	server *server
}

// GRPCServer implements plugin.GRPCPlugin in the plugin.
func (p *v1) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	backendv1.RegisterBackendServiceServer(s, p.server)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin in the host.
func (p *v1) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// closeBackend lets a backend finish what it does in the background.
func closeBackend(b execution.Backend) {
	if c, ok := b.(io.Closer); ok {
		_ = c.Close() // nobody is left to tell
	}
}
