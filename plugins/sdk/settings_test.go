package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/plugins/sdk"
)

type someSettings struct {
	Host  string `json:"host"`
	Count int    `json:"count"`
	Inner struct {
		Deep string `json:"deep"`
	} `json:"inner"`
	List []struct {
		Name string `json:"name"`
	} `json:"list"`
	Map map[string]*struct {
		N int `json:"n"`
	} `json:"map"`
	When time.Time `json:"when"`
}

func TestDecodeSettings(t *testing.T) {
	for _, c := range []struct{ raw, wrong string }{
		{``, ""},
		{`null`, ""},
		{`{}`, ""},
		{`{"host":"x","count":2,"inner":{"deep":"y"}}`, ""},
		{`{"map":{"Any":{"n":1},"any":{"n":2}},"list":[{"name":"a"},{"name":"b"}],"when":"2030-01-02T03:04:05Z"}`, ""},
		{`{"Host":"x"}`, `settings has no key "Host"`},
		{`{"host":"x","Host":"y"}`, `settings has no key "Host"`},
		{`{"host":"x","host":"y"}`, `settings has the key "host" twice`},
		{`{"inner":{"Deep":"x"}}`, `settings.inner has no key "Deep"`},
		{`{"list":[{"name":"a"},{"NAME":"b"}]}`, `settings.list has no key "NAME"`},
		{`{"map":{"a":{"n":1},"a":{"n":2}}}`, `settings.map has the key "a" twice`},
		{`{"map":{"a":{"N":1}}}`, `settings.map.a has no key "N"`},
		{`{"host":"x"`, "settings cannot be read"},
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
	if err := sdk.DecodeSettings([]byte(`{"x":1}`), &someSettings{}); !strings.Contains(core.HintOf(err), "count, host, inner, list, map, when") {
		t.Errorf("the hint does not list the keys: %v", err)
	}
}
