package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/storage/sqlite"
	"github.com/boxwright/boxwright/core"
)

func backupCommand() *cobra.Command {
	var flags settingFlags
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database to a new file, while servers run",
		Long: `Writes a copy of the SQLite database, with sessions, results of runs, users, keys and the audit log, as it is at one
moment. Files of runs and links.key, which are beside it in the state folder, are not in it. To restore it, stop all
servers, put the copy in place of ` + databaseFile + `, and remove those beside it that end in -wal and -shm.

A PostgreSQL database (storage.database: postgres) is copied by its own tools, such as pg_dump --schema=boxwright.`,
		Example: "  boxwright backup /backups/boxwright-$(date +%F).db",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "" {
				return nil
			}
			return core.Errorf(core.ErrInvalid, "%s needs one FILE, not %d", c.CommandPath(), len(args)).WithHint("name the file to write")
		},
		RunE: func(c *cobra.Command, args []string) error {
			settings, err := flags.load(c)
			if err != nil {
				return err
			}
			return backup(c, settings.Storage, args[0])
		},
	}
	flags.add(c)
	return c
}

func backup(c *cobra.Command, storage config.Storage, to string) error {
	if storage.Database != config.DatabaseSQLite {
		return core.Errorf(core.ErrUnsupported, "storage.database is %s: only sqlite is copied by this command", storage.Database).
			WithHint("PostgreSQL has its own tools, such as pg_dump; what is in memory cannot be copied")
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return core.Errorf(core.ErrInvalid, "the path %q cannot be used: %w", to, err)
	}
	if err := sqlite.Backup(c.Context(), databasePath(storage), to); err != nil {
		return err
	}
	say(c.ErrOrStderr(), "copied %s to %s\n", databasePath(storage), to)
	return nil
}
