package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
)

func keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Create, list, rotate and revoke the keys of users",
		Long: `A key is what a client shows to use the server over HTTP: Authorization: Bearer KEY. It is printed once, when it is
made; the server keeps its hash only. These commands work on the state folder, and may be used while servers run.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(keysCreateCommand(), keysListCommand(), keysRotateCommand(), keysRevokeCommand())
	return c
}

// keyFlags say what a new key is.
type keyFlags struct {
	identityFlags
	label   string
	scopes  []string
	expires time.Duration
}

func keysCreateCommand() *cobra.Command {
	var flags keyFlags
	c := &cobra.Command{
		Use:     "create USER",
		Short:   "Make a key for a user, and print it",
		Example: "  boxwright keys create ann --label laptop --scope run --scope read --expires 2160h",
		Args:    exactlyOne("USER", "boxwright users list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error { return flags.create(c, p, args[0]) })
		},
	}
	flags.add(c)
	c.Flags().StringVar(&flags.label, "label", "", "what it is for")
	c.Flags().StringSliceVar(&flags.scopes, "scope", nil, "what it allows: run, read, admin; default all that its user may")
	c.Flags().DurationVar(&flags.expires, "expires", 0, "how long it is good, such as 2160h; default for ever")
	return c
}

func (f *keyFlags) create(c *cobra.Command, p people, user string) error {
	if f.expires < 0 {
		return core.Errorf(core.ErrInvalid, "--expires is %s, but must not be below 0", f.expires)
	}
	if c.Flags().Changed("scope") && len(f.scopes) == 0 { // an empty variable in a script must not mean all
		return core.Errorf(core.ErrInvalid, "--scope is empty").WithHint("name run, read or admin, or leave --scope out for all that the user may")
	}
	owner, err := p.User(c.Context(), user)
	if err != nil {
		return err
	}
	asked := core.Key{Owner: owner.ID, Label: f.label, Created: time.Now()}
	for _, scope := range f.scopes {
		asked.Scopes = append(asked.Scopes, core.Scope(scope))
	}
	if f.expires > 0 {
		asked.Expires = asked.Created.Add(f.expires)
	}
	made, text := auth.NewKey(asked)
	if err := p.AddKey(c.Context(), made); err != nil {
		return err
	}
	// It is good now, so that whoever asked gets it, whatever fails then.
	printed := f.printMade(c, made, owner.Name, text)
	return errors.Join(printed, p.keep("key.create", auth.Shown(made.ID)+" of "+owner.Name))
}

// printMade prints a key, alone on standard output so that a script can take it, and tells a person the rest.
func (f *identityFlags) printMade(c *cobra.Command, k core.Key, owner, text string) error {
	if f.asJSON {
		shown := shownKeyOf(k, owner)
		shown.Key = text
		return writeJSON(c.OutOrStdout(), shown)
	}
	say(c.OutOrStdout(), "%s\n", text)
	say(c.ErrOrStderr(), "This is the key %s of %s. It is not shown again.\n", auth.Shown(k.ID), owner)
	return nil
}

func keysListCommand() *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   "list [USER]",
		Short: "List the keys of a user, or of all",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return core.Errorf(core.ErrInvalid, "%s takes one USER at most, not %d", c.CommandPath(), len(args)).WithHint("boxwright users list tells which there are")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error { return flags.listKeys(c, p, args) })
		},
	}
	flags.add(c)
	return c
}

func (f *identityFlags) listKeys(c *cobra.Command, p people, args []string) error {
	owner := ""
	if len(args) > 0 {
		u, err := p.User(c.Context(), args[0])
		if err != nil {
			return err
		}
		owner = u.ID
	}
	list, err := p.Keys(c.Context(), owner)
	if err != nil {
		return err
	}
	names, err := p.names()
	if err != nil {
		return err
	}
	return f.printKeys(c.OutOrStdout(), list, names)
}

func keysRotateCommand() *cobra.Command {
	var flags identityFlags
	var overlap time.Duration
	c := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make a key in place of another, and print it",
		Long: `Makes a key with the label, the scopes and the lifetime of another, and prints it. The other one stays good for
--overlap, so that its bearers have time to change.`,
		Args: exactlyOne("ID", "boxwright keys list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error { return flags.rotate(c, p, args[0], overlap) })
		},
	}
	flags.add(c)
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old key stays good")
	return c
}

func (f *identityFlags) rotate(c *cobra.Command, p people, id string, overlap time.Duration) error {
	if overlap < 0 {
		return core.Errorf(core.ErrInvalid, "--overlap is %s, but must not be below 0", overlap)
	}
	old, owner, err := findKey(c.Context(), p, id)
	if err != nil {
		return err
	}
	now := time.Now()
	next := core.Key{Owner: old.Owner, Label: old.Label, Scopes: old.Scopes, Created: now}
	if !old.Expires.IsZero() {
		next.Expires = now.Add(old.Expires.Sub(old.Created))
	}
	made, text := auth.NewKey(next)
	if err := p.ReplaceKey(c.Context(), old.ID, made, now.Add(overlap)); err != nil {
		return err
	}
	printed := f.printMade(c, made, owner.Name, text)
	return errors.Join(printed, p.keep("key.rotate", auth.Shown(old.ID)+" to "+auth.Shown(made.ID)+" of "+owner.Name))
}

// findKey takes an id with or without what is before it in a key.
func findKey(ctx context.Context, p people, id string) (core.Key, core.User, error) {
	return p.Key(ctx, strings.TrimPrefix(id, auth.Shown("")))
}

func keysRevokeCommand() *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "Have a key open nothing any more",
		Args:  exactlyOne("ID", "boxwright keys list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error { return flags.revoke(c, p, args[0]) })
		},
	}
	flags.add(c)
	return c
}

// revoke does no harm to a key that is revoked already.
func (f *identityFlags) revoke(c *cobra.Command, p people, id string) error {
	found, owner, err := findKey(c.Context(), p, id)
	if err != nil {
		return err
	}
	err = p.UpdateKey(c.Context(), found.ID, func(k *core.Key) error {
		if k.Revoked.IsZero() {
			k.Revoked = time.Now()
		}
		found = *k
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.keep("key.revoke", auth.Shown(found.ID)+" of "+owner.Name); err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(c.OutOrStdout(), shownKeyOf(found, owner.Name))
	}
	say(c.OutOrStdout(), "revoked %s of %s; servers know in two seconds\n", auth.Shown(found.ID), owner.Name)
	return nil
}
