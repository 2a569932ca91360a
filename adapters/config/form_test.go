package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/config"
)

// everyForm prints the value in every way in which values get into logs and files.
func everyForm(t *testing.T, value any) map[string]string {
	t.Helper()
	forms := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T%v"} {
		forms[verb] = fmt.Sprintf(verb, value)
		if verb == "%T%v" {
			forms[verb] = fmt.Sprintf(verb, value, value)
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	forms["json"] = string(text)
	var plain, structured bytes.Buffer
	slog.New(slog.NewTextHandler(&plain, nil)).Info("x", "value", value)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("x", "value", value)
	forms["slog text"], forms["slog json"] = plain.String(), structured.String()
	return forms
}

func TestSecretForms(t *testing.T) {
	for form, text := range everyForm(t, []any{config.NewSecret("hunter2"), new(config.Secret), map[string]config.Secret{"a": config.NewSecret("hunter2")}}) {
		if bytes.Contains([]byte(text), []byte("hunter2")) || bytes.Contains([]byte(text), []byte("68756e746572")) {
			t.Errorf("%s shows the secret: %s", form, text)
		}
	}
	if got := fmt.Sprintf("%v %#v %q", config.NewSecret("x"), config.NewSecret("x"), config.NewSecret("")); got != `[secret] "[secret]" ""` {
		t.Errorf("got %s", got)
	}
	if got := config.NewSecret("x").LogValue().String(); got != "[secret]" {
		t.Errorf("the log shows %s", got)
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		text string
		want config.Size
		bad  bool
	}{
		{"0", 0, false},
		{"1048576", 1 << 20, false},
		{"512MiB", 512 << 20, false},
		{"512 mib", 512 << 20, false},
		{"2g", 2 << 30, false},
		{"2GB", 2 << 30, false},
		{"1.5k", 1536, false},
		{"1t", 1 << 40, false},
		{"100B", 100, false},
		{"8388607t", 8388607 << 40, false},
		{"8388608t", 0, true},
		{"9223372036854775808", 0, true},
		{"1.0001k", 0, true},
		{"-1", 0, true},
		{"", 0, true},
		{"g", 0, true},
		{"1gg", 0, true},
		{"1x", 0, true},
		{"1e3", 0, true},
		{"0x10", 0, true},
		{"NaN", 0, true},
		{"inf", 0, true},
	}
	for _, tt := range tests {
		var got config.Size
		err := got.UnmarshalText([]byte(tt.text))
		if (err != nil) != tt.bad || err == nil && got != tt.want {
			t.Errorf("%q: got %d, %v", tt.text, got, err)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add("1.5g")
	f.Add("8388608t")
	f.Fuzz(func(t *testing.T, text string) {
		var size, again config.Size
		if size.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(size.String())); err != nil || again != size || size < 0 {
			t.Errorf("%q: %d becomes %d, %v", text, size, again, err)
		}
	})
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 30 * time.Second: "30s", 10 * time.Minute: "10m", 168 * time.Hour: "168h",
		90 * time.Minute: "1h30m", 100 * time.Second: "1m40s", time.Hour + time.Second: "1h0m1s", math.MaxInt64: "2562047h47m16.854775807s",
	} {
		var again config.Duration
		if got := config.Duration(d).String(); got != want || again.UnmarshalText([]byte(got)) != nil || again.Std() != d {
			t.Errorf("%v: got %s, which is %v", d, got, again)
		}
	}
}
