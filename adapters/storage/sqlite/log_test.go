package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLogIsMoved: what is in the log gets into the file while it is open, long before the log is too large.
func TestLogIsMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	db := open(t, path)
	for i := range 16 {
		large := someRun(fmt.Sprint("r", i))
		large.Record.Stdout.Head = make([]byte, 700_000)
		if err := db.Runs().Put(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for start := time.Now(); size() < 5<<20; time.Sleep(time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("the file has %d bytes only", size())
		}
	}
	if list, err := db.Runs().List(t.Context(), "ann", time.Time{}, 100); err != nil || len(list) != 16 {
		t.Errorf("of 16 runs %d are kept; %v", len(list), err)
	}
}
