package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/identity"
)

// identityFlags are the flags of all commands on users and keys.
type identityFlags struct {
	settingFlags
	asJSON bool
}

func (f *identityFlags) add(c *cobra.Command) {
	f.settingFlags.add(c)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
}

// operator stands in the audit log for whoever may write to the state folder.
const operator = "operator"

// people are those who may call, as an operator at the command line sees them.
type people struct {
	identity.Store
	ctx context.Context //nolint:containedctx // it lives as long as one command
}

// with opens the database of the settings, which servers may have open too.
func (f *identityFlags) with(c *cobra.Command, use func(people) error) error {
	settings, err := f.load(c)
	if err != nil {
		return err
	}
	database, err := openDatabase(settings.Storage, "")
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }() // what was to be kept is kept
	return use(people{database.Identity(), c.Context()})
}

// keep has the audit log know what the operator did.
func (p people) keep(action, target string) error {
	return p.Append(p.ctx, core.AuditRecord{At: time.Now(), Principal: operator, Action: action, Target: target, Outcome: "ok"})
}

// names of all users, by id.
func (p people) names() (map[string]string, error) {
	users, err := p.Users(p.ctx)
	names := map[string]string{}
	for _, u := range users {
		names[u.ID] = u.Name
	}
	return names, err
}
