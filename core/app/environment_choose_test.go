package app

import (
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

// TestExpendable: a to d are on one backend, a used longest ago; e is alone on another.
func TestExpendable(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	all := []core.Environment{
		{Key: "c", Backend: "docker", Size: 30, Used: ago(3)},
		{Key: "a", Backend: "docker", Size: 10, Used: ago(9)},
		{Key: "e", Backend: "podman", Size: 90, Used: ago(5)},
		{Key: "b", Backend: "docker", Size: 20, Used: ago(6)},
		{Key: "d", Backend: "docker", Size: 40, Used: ago(0)},
	}
	for name, tt := range map[string]struct {
		limits EnvironmentLimits
		inUse  string
		want   string
	}{
		"no bounds":              {EnvironmentLimits{}, "", ""},
		"all fit":                {EnvironmentLimits{MaxSize: 100, MaxAge: 9 * time.Hour}, "", ""},
		"one is too much":        {EnvironmentLimits{MaxSize: 99}, "", "a"},
		"the oldest first":       {EnvironmentLimits{MaxSize: 75}, "", "a b e"},
		"each backend by itself": {EnvironmentLimits{MaxSize: 89}, "", "a b e"},
		"too old":                {EnvironmentLimits{MaxAge: 5*time.Hour + time.Minute}, "", "a b"},
		"what is old makes room": {EnvironmentLimits{MaxSize: 90, MaxAge: 8 * time.Hour}, "", "a"},
		"in use, so the next":    {EnvironmentLimits{MaxSize: 99}, "a", "b"},
		"all in use":             {EnvironmentLimits{MaxSize: 1, MaxAge: time.Hour}, "abcde", ""},
		"one that is too large":  {EnvironmentLimits{MaxSize: 39}, "", "a b e c d"},
	} {
		var keys []string
		for _, e := range tt.limits.expendable(all, now, func(e core.Environment) bool { return strings.Contains(tt.inUse, e.Key) }) {
			keys = append(keys, e.Key)
		}
		if got := strings.Join(keys, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
