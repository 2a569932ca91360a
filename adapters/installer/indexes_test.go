package installer

import (
	"slices"
	"testing"
)

// The first index that has a name counts: private ones come before all others, wherever they are named.
func TestOrderOfIndexes(t *testing.T) {
	const private, other, open = "https://user:pass@private.example", "https://token@other.example", "https://index.example"
	for _, tt := range []struct {
		options Options
		want    []string
		private bool
	}{
		{Options{}, []string{""}, false},
		{Options{IndexURL: open}, []string{open}, false},
		{Options{IndexURL: private}, []string{private}, true},
		{Options{ExtraIndexURLs: []string{private}}, []string{private, ""}, true},
		{Options{IndexURL: open, ExtraIndexURLs: []string{private}}, []string{private, open}, true},
		{Options{IndexURL: private, ExtraIndexURLs: []string{open}}, []string{private, open}, true},
		{Options{IndexURL: private, ExtraIndexURLs: []string{open, other}}, []string{other, private, open}, true},
		{Options{IndexURL: open, ExtraIndexURLs: []string{"https://b.example", "https://a.example"}}, []string{"https://b.example", "https://a.example", open}, false},
		{Options{IndexURL: "::\x7f"}, []string{"::\x7f"}, true},
		{Options{IndexURL: private, Wheels: "/wheels"}, []string{private}, false},
	} {
		if got := tt.options.Indexes(); !slices.Equal(got, tt.want) || New(tt.options).Private() != tt.private {
			t.Errorf("%q and %q: got %q, private %v", tt.options.IndexURL, tt.options.ExtraIndexURLs, got, !tt.private)
		}
	}
}
