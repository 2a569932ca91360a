package session

import "github.com/boxwright/boxwright/core"

// Taken is the error of a store that is to keep a session whose name, or whose client, another one of the same owner
// has.
func Taken(of core.Session) error {
	if of.Name == "" {
		return core.Errorf(core.ErrInvalid, "this connection has a sandbox of its own already").
			WithHint("leave sandbox_id out to use it")
	}
	return core.Errorf(core.ErrInvalid, "there is a sandbox named %.100q already", of.Name).
		WithHint("use it by that name, stop it first, or choose another name")
}
