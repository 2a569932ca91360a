package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/core"
)

func usersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "users",
		Short: "Add, list and remove those who may use the server over HTTP",
		Long: `Users are those who have keys (boxwright keys). What one of them makes, no other sees.
These commands work on the state folder, and may be used while servers run.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		usersAddCommand(), usersListCommand(), usersRemoveCommand(), usersRoleCommand(),
		usersChangeCommand("disable", "Have a user's keys open nothing until it is enabled again, and end its sandboxes, runs and connections", func(u *core.User) { u.Disabled = true }),
		usersChangeCommand("enable", "Have a disabled user's keys count again", func(u *core.User) { u.Disabled = false }),
	)
	return c
}

func usersAddCommand() *cobra.Command {
	var flags identityFlags
	var role string
	c := &cobra.Command{
		Use:     "add NAME",
		Short:   "Add a user",
		Example: "  boxwright users add ann --role admin && boxwright keys create ann",
		Args:    exactlyOne("NAME", "boxwright users list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error {
				u := auth.NewUser(args[0], core.Role(role), time.Now())
				if err := p.AddUser(c.Context(), u); err != nil {
					return err
				}
				if err := p.keep("user.add", u.Name); err != nil {
					return err
				}
				return flags.printUser(c.OutOrStdout(), u, "added")
			})
		},
	}
	flags.add(c)
	c.Flags().StringVar(&role, "role", string(core.RoleUser), "user, or admin: may look after what others own")
	return c
}

func usersListCommand() *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List the users",
		Args:  noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.with(c, func(p people) error {
				list, err := p.Users(c.Context())
				if err != nil {
					return err
				}
				return flags.printUsers(c.OutOrStdout(), list)
			})
		},
	}
	flags.add(c)
	return c
}

// usersChangeCommand is a command that changes one user.
func usersChangeCommand(name, short string, change func(*core.User)) *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   name + " NAME",
		Short: short,
		Args:  exactlyOne("NAME", "boxwright users list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.change(c, args[0], "user."+name, change)
		},
	}
	flags.add(c)
	return c
}

func usersRoleCommand() *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   "role NAME user|admin",
		Short: "Give a user another role",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return core.Errorf(core.ErrInvalid, "%s needs a NAME and a role, not %d arguments", c.CommandPath(), len(args)).
				WithHint("write: boxwright users role NAME admin")
		},
		RunE: func(c *cobra.Command, args []string) error {
			return flags.change(c, args[0], "user.role", func(u *core.User) { u.Role = core.Role(args[1]) })
		},
	}
	flags.add(c)
	return c
}

// change changes a user, and prints it.
func (f *identityFlags) change(c *cobra.Command, name, action string, change func(*core.User)) error {
	return f.with(c, func(p people) error {
		found, err := p.User(c.Context(), name)
		if err != nil {
			return err
		}
		var changed core.User
		err = p.UpdateUser(c.Context(), found.ID, func(u *core.User) error {
			change(u)
			changed = *u
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.keep(action, found.Name); err != nil {
			return err
		}
		return f.printUser(c.OutOrStdout(), changed, "changed")
	})
}

func usersRemoveCommand() *cobra.Command {
	var flags identityFlags
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user and its keys",
		Long: `Removes a user and its keys. Servers end its sandboxes, runs and connections within seconds; its files go when they
are old. Another user of the same name is another one, and inherits nothing.`,
		Args: exactlyOne("NAME", "boxwright users list"),
		RunE: func(c *cobra.Command, args []string) error {
			return flags.with(c, func(p people) error {
				found, err := p.User(c.Context(), args[0])
				if err != nil {
					return err
				}
				if err := p.RemoveUser(c.Context(), found.ID); err != nil {
					return err
				}
				if err := p.keep("user.remove", found.Name); err != nil {
					return err
				}
				return flags.printUser(c.OutOrStdout(), found, "removed")
			})
		},
	}
	flags.add(c)
	return c
}

// shownUser is a user for programs.
type shownUser struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Role     core.Role `json:"role"`
	Disabled bool      `json:"disabled"`
	Created  time.Time `json:"created"`
}

func shownUserOf(u core.User) shownUser {
	return shownUser{ID: u.ID, Name: u.Name, Role: u.Role, Disabled: u.Disabled, Created: u.Created.UTC()}
}

// printUser prints what was done with one.
func (f *identityFlags) printUser(w io.Writer, u core.User, done string) error {
	if f.asJSON {
		return writeJSON(w, shownUserOf(u))
	}
	say(w, "%s %s (%s, %s)\n", done, u.Name, u.Role, stateOf(u))
	return nil
}

func stateOf(u core.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

func (f *identityFlags) printUsers(w io.Writer, list []core.User) error {
	return listing[core.User, shownUser]{
		shown: shownUserOf, empty: "there are no users; boxwright users add makes one", header: "NAME\tROLE\tSTATE\tCREATED\tID",
		row: func(table io.Writer, u core.User) {
			say(table, "%s\t%s\t%s\t%s\t%s\n", u.Name, u.Role, stateOf(u), clock(u.Created), u.ID)
		},
	}.print(w, f.asJSON, list)
}
