package sdk_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/go-plugin"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
	"github.com/boxwright/boxwright/plugins/sdk/sdktest"
	"github.com/boxwright/boxwright/ports/execution"
	"github.com/boxwright/boxwright/ports/execution/executiontest"
)

// TestMain lets the test binary play a plugin executable.
func TestMain(m *testing.M) {
	if os.Getenv(sdk.CookieKey) != "" {
		sdk.Serve(func(context.Context, sdk.Config) (execution.Backend, error) {
			fmt.Println("a plugin's author forgot this line") //nolint:forbidigo // it must do no harm
			return executiontest.NewFake(), nil
		})
		return
	}
	os.Exit(m.Run())
}

func serving(b execution.Backend) sdk.Open {
	return func(context.Context, sdk.Config) (execution.Backend, error) { return b, nil }
}

// overGRPC serves b in this process and returns the client's end.
func overGRPC(t *testing.T, open sdk.Open) *sdk.Client {
	t.Helper()
	conn, _ := plugin.TestPluginGRPCConn(t, false, sdk.Plugins(open)[sdk.ProtocolVersion])
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.Dispense(sdk.PluginName)
	if err != nil {
		t.Fatal(err)
	}
	return raw.(*sdk.Client)
}

func configured(t *testing.T, b execution.Backend) *sdk.Client {
	t.Helper()
	c := overGRPC(t, serving(b))
	if err := c.Configure(t.Context(), sdk.Config{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformanceOverGRPC(t *testing.T) {
	executiontest.Run(t, func(t *testing.T) executiontest.Env {
		return executiontest.FakeEnv(executiontest.NewFake(), func(b execution.Backend) execution.Backend { return configured(t, b) })
	})
}

func TestConformanceOfAnExecutable(t *testing.T) {
	executiontest.Run(t, func(t *testing.T) executiontest.Env {
		return executiontest.RemoteFakeEnv(sdktest.Spawn(t, os.Args[0], sdktest.Options{Env: quickExit()}))
	}, executiontest.RemoteSkips()...)
}

func TestConfigureComesFirstAndOnce(t *testing.T) {
	c := overGRPC(t, serving(executiontest.NewFake()))
	_, err := c.Info(t.Context())
	if core.KindOf(err) != core.ErrInvalid {
		t.Errorf("a call before Configure: %v", err)
	}
	if _, err := c.Dial(t.Context(), "x"); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("Dial before Configure: %v", err)
	}
	if err := c.Configure(t.Context(), sdk.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Configure(t.Context(), sdk.Config{}); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("the second Configure: %v", err)
	}
}

func TestConfigArrives(t *testing.T) {
	want := sdk.Config{Settings: []byte(`{"a":1}`), Agents: map[string]string{"amd64": "/x"}, Instance: "i", Server: "s"}
	var got sdk.Config
	c := overGRPC(t, func(_ context.Context, cfg sdk.Config) (execution.Backend, error) {
		got = cfg
		return executiontest.NewFake(), nil
	})
	if err := c.Configure(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if string(got.Settings) != string(want.Settings) || got.Agents["amd64"] != "/x" || got.Instance != "i" || got.Server != "s" {
		t.Errorf("got %+v", got)
	}
}

func TestRefusedConfigurationMayBeRepeated(t *testing.T) {
	refuse := true
	c := overGRPC(t, func(context.Context, sdk.Config) (execution.Backend, error) {
		if refuse {
			return nil, core.Errorf(core.ErrInvalid, "no").WithHint("yes")
		}
		return executiontest.NewFake(), nil
	})
	if err := c.Configure(t.Context(), sdk.Config{}); core.KindOf(err) != core.ErrInvalid || core.HintOf(err) != "yes" {
		t.Errorf("got %v", err)
	}
	refuse = false
	if err := c.Configure(t.Context(), sdk.Config{}); err != nil {
		t.Error(err)
	}
}

// quickExit keeps the race detector, if it is on, from pausing for a second at each plugin's end.
func quickExit() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
