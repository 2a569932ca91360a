package identity

import "github.com/boxwright/boxwright/core"

// The errors of every store, so that all say the same.

// ErrNoUser is the error of naming a user that is not there.
func ErrNoUser(idOrName string) error {
	return core.Errorf(core.ErrNotFound, "there is no user %.100q", idOrName).WithHint("boxwright users list tells which there are")
}

// ErrNoKey is the error of naming a key that is not there.
func ErrNoKey(id string) error {
	return core.Errorf(core.ErrNotFound, "there is no key %.60q", id).WithHint("boxwright keys list tells which there are")
}

// ErrUserTaken is the error of adding a user that there is.
func ErrUserTaken(name string) error {
	return core.Errorf(core.ErrInvalid, "there is a user %.100q already", name).WithHint("choose another name")
}

// ErrKeyTaken is the error of adding a key that there is.
func ErrKeyTaken(id string) error {
	return core.Errorf(core.ErrInvalid, "there is a key %.60q already", id)
}

// ErrHasAdmin is the error of offering a token once it is of no use.
func ErrHasAdmin() error {
	return core.Errorf(core.ErrInvalid, "there is an administrator already")
}

// ErrNotRedeemed is the error of showing a token that is good for nothing, whatever the reason is.
func ErrNotRedeemed() error {
	return core.Errorf(core.ErrDenied, "the token is not the one that makes the first administrator, or is not good any more").
		WithHint("a server that has none prints a new token when it starts; boxwright users add makes one without a token")
}

// ErrFull is the error of keeping more files than the owner may.
func ErrFull(used, more, most int64) error {
	return core.Errorf(core.ErrExhausted, "your quota of kept files is full: %s of %s are used, %s more do not fit",
		core.FormatBytes(used), core.FormatBytes(most), core.FormatBytes(more))
}

// ErrHeld is the error of adding to another's files.
func ErrHeld(run string) error {
	return core.Errorf(core.ErrInvalid, "the files of run %.64q are somebody else's", run)
}

// ErrPage is the error of asking for no records.
func ErrPage(limit int) error {
	return core.Errorf(core.ErrInvalid, "a list of %d records was asked for; it has at least 1", limit)
}

// ErrNotReplaced is the error of replacing a key that is over, or by another's.
func ErrNotReplaced(id string) error {
	return core.Errorf(core.ErrInvalid, "key %.60q was revoked or replaced already, or is another user's", id).
		WithHint("boxwright keys list tells which are good; boxwright keys create makes one")
}

// ErrNoHolding is the error of naming a run of which nothing is kept.
func ErrNoHolding(run string) error {
	return core.Errorf(core.ErrNotFound, "nothing is kept of run %.64q", run)
}
