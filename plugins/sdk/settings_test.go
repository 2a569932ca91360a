package sdk_test

import (
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

type someSettings struct {
	Host  string `json:"host"`
	Count int    `json:"count"`
	Inner struct {
		Deep string `json:"deep"`
	} `json:"inner"`
}

func TestDecodeSettings(t *testing.T) {
	for _, c := range []struct{ raw, wrong string }{
		{``, ""},
		{`null`, ""},
		{`{}`, ""},
		{`{"host":"x","count":2,"inner":{"deep":"y"}}`, ""},
		{`{"hots":"x"}`, `no key "hots"`},
		{`{"inner":{"depe":"x"}}`, "depe"},
		{`{"count":"2"}`, "settings.count must be a int, not a string"},
		{`[1]`, "settings"},
		{`{"host":"x"} {"host":"y"}`, "one object"},
		{`{"host":`, "settings cannot be read"},
	} {
		got := someSettings{}
		err := sdk.DecodeSettings([]byte(c.raw), &got)
		if c.wrong == "" {
			if err != nil {
				t.Errorf("%s: %v", c.raw, err)
			}
			continue
		}
		if core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %v", c.raw, err)
		}
	}
	if err := sdk.DecodeSettings([]byte(`{"x":1}`), &someSettings{}); !strings.Contains(core.HintOf(err), "count, host, inner") {
		t.Errorf("the hint does not list the keys: %v", err)
	}
}
