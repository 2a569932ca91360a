package core_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/core"
)

// ordered are versions from old to new, as PEP 440 has them; those on one line are equal.
const ordered = `1.dev0
1.0.dev456
1.0a1
1.0a2.dev456
1.0a12.dev456
1.0a12 1.0-alpha_12
1.0b1.dev456
1.0b2
1.0b2.post345.dev456
1.0b2.post345 1.0b2-345
1.0rc1.dev456
1.0rc1 1.0c1 1.0.pre1
1 1.0 v1.0.0 1.0+abc.5
1.0.post456.dev34
1.0.post456
1.1.dev1
1.1
1.1.1
1.10
2024.1.1
1!0.1`

func TestVersionOrder(t *testing.T) {
	lines := strings.Split(ordered, "\n")
	for i, older := range lines {
		for j, newer := range lines {
			for a := range strings.FieldsSeq(older) {
				for b := range strings.FieldsSeq(newer) {
					left, okA := core.ParseVersion(a)
					right, okB := core.ParseVersion(b)
					want := min(1, max(-1, i-j))
					if got := left.Compare(right); !okA || !okB || got != want {
						t.Errorf("%s against %s: got %d, want %d", a, b, got, want)
					}
				}
			}
		}
	}
	for _, none := range []string{"", "x", "1.", "1..2", "1.0-", "1 2", "1.0+", "é", strings.Repeat("1", 19), strings.Repeat("1.", 40) + "1"} {
		if v, ok := core.ParseVersion(none); ok {
			t.Errorf("%q is %+v", none, v)
		}
	}
}

func TestNewestVersions(t *testing.T) {
	all := []string{"1.9", "1.10", "2.0rc1", "junk", "1.10.post1", "0.1", "3.0.dev1"}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if got := core.NewestVersions(all, 3); !slices.Equal(got, []string{"1.10.post1", "1.10", "1.9"}) {
		t.Errorf("got %v", got)
	}
	if got := core.NewestVersions([]string{"1.0b1", "1.0a1"}, 3); !slices.Equal(got, []string{"1.0b1", "1.0a1"}) {
		t.Errorf("without a final one: %v", got)
	}
}

func TestAdmits(t *testing.T) {
	for _, tt := range []struct {
		specifier string
		in, out   string
	}{
		{">=3.9", "3.9.0 3.11.4 4", "3.8.18 3.9rc1"},
		{">=3.9,<3.13", "3.9 3.12.9", "3.8 3.13.0"},
		{" >= 3.9 , != 3.10.* ,", "3.9 3.11", "3.10 3.10.4"},
		{"==3.11.*", "3.11 3.11.9", "3.1 3.12 3.110"},
		{"~=3.9", "3.9 3.13", "3.8 4.0"},
		{"~=3.9.2", "3.9.2 3.9.30", "3.9.1 3.10"},
		{"==3.11", "3.11 3.11.0", "3.11.1"},
		{"!=3.11", "3.11.1", "3.11"},
		{"<=3.11", "3.11 3.10", "3.11.1"},
		{">3.11", "3.11.1", "3.11"},
	} {
		for texts, want := range map[string]bool{tt.in: true, tt.out: false} {
			for text := range strings.FieldsSeq(texts) {
				v, _ := core.ParseVersion(text)
				if got, err := core.Admits(tt.specifier, v); err != nil || got != want {
					t.Errorf("%s, %s: got %v, %v, want %v", tt.specifier, text, got, err, want)
				}
			}
		}
	}
	for _, wrong := range []string{"", "3.9", ">=", ">=3.9;x", ">=3.9 <4", "=>3.9", strings.Repeat(">=1,", 100) + "x"} {
		if _, err := core.Admits(wrong, core.Version{}); core.KindOf(err) != core.ErrInvalid {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}
