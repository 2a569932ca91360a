package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/core"
)

// TestURLFromFile: the address of the database may be in a file; no error tells what is in it.
func TestURLFromFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	if err := os.WriteFile(file, []byte("\npostgres://ann:hunter2@db/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(pairs ...string) (config.Config, error) {
		return config.Load(config.Source{Environ: append([]string{"HOME=" + dir}, pairs...), PipConfigs: []string{}})
	}
	const database, url, urlFile = "BOXWRIGHT_STORAGE_DATABASE=postgres", "BOXWRIGHT_STORAGE_POSTGRES_URL=", "BOXWRIGHT_STORAGE_POSTGRES_URL_FILE="
	for name, pairs := range map[string][]string{"in a file": {database, urlFile + file}, "itself": {database, url + "postgres://ann:hunter2@db/x"}} {
		if c, err := load(pairs...); err != nil || c.Storage.Postgres.URL.Reveal() != "postgres://ann:hunter2@db/x" {
			t.Errorf("%s: the URL is %q, %v", name, c.Storage.Postgres.URL.Reveal(), err)
		}
	}
	for name, pairs := range map[string][]string{
		"neither": {database}, "both": {database, urlFile + file, url + "postgres://ann:hunter2@db/x"}, "no file": {database, urlFile + file + "x"}, "a folder": {database, urlFile + dir},
	} {
		if _, err := load(pairs...); core.KindOf(err) != core.ErrInvalid || !strings.Contains(err.Error(), "storage.postgres.url") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Load returned %v", name, err)
		}
	}
}
