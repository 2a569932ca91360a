// Package sdk turns an execution.Backend into a plugin executable, and a plugin's connection
// into an execution.Backend.
//
// A plugin's main calls Serve. The host (adapters/pluginhost, sdktest) uses Handshake and
// Plugins. The package knows the wire and nothing of any engine; it does not find, launch or
// supervise processes.
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
	CookieKey       = "BOXWRIGHT_PLUGIN"
	CookieValue     = "backend"
	ProtocolVersion = 1
	PluginName      = "backend"
)

// drainTime is how long a plugin that was told to leave lets calls undo what they began. It is
// shorter than the two seconds that go-plugin's host waits before it kills.
const drainTime = 1500 * time.Millisecond

// Config is all that a plugin is told about its host.
type Config struct {
	Settings json.RawMessage   // the plugin's own section of the operator's config; see DecodeSettings
	Agents   map[string]string // paths of the agent executables by GOARCH
	Instance string            // the installation; everything made is labelled with it
	Server   string            // the server process
	Logger   hclog.Logger      // reaches the host's log; set by Serve, not sent over the wire
}

// Open makes the backend. It should not need the engine: one that is not there yet is found
// at the first call.
type Open func(ctx context.Context, cfg Config) (execution.Backend, error)

// Handshake is go-plugin's check that plugin and host are meant for one another.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// Plugins lists the protocol versions that this SDK speaks. A host passes nil.
func Plugins(open Open) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{ProtocolVersion: {PluginName: &v1{server: newServer(open)}}}
}

// Serve serves the backend that open makes, until the host says so or dies. Nothing may have
// written to stdout before.
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
