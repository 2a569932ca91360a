package core

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Role is what a user may do besides using the server.
type Role string

// The roles.
const (
	RoleUser  Role = "user"
	RoleAdmin Role = "admin" // looks after users, keys and what others own
)

// User is a principal that the server itself knows, unlike one that an issuer of tokens vouches for.
type User struct {
	ID       string // the principal's id: never used again, so that nobody inherits what a removed user owned
	Name     string // for people, unique among users; another case is the same name
	Role     Role
	Disabled bool // its keys open nothing
	Created  time.Time
}

// maxUserName bounds a user's name, in bytes.
const maxUserName = 64

// CheckUser refuses a user that cannot be kept, as ErrInvalid.
func CheckUser(u User) error {
	if err := CheckPrincipalID(u.ID); err != nil {
		return err
	}
	if u.Role != RoleUser && u.Role != RoleAdmin {
		return Errorf(ErrInvalid, "there is no role %.40q", u.Role).WithHint("the roles are user and admin")
	}
	strange := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if u.Name == "" || len(u.Name) > maxUserName || !utf8.ValidString(u.Name) || strings.ContainsFunc(u.Name, strange) {
		return Errorf(ErrInvalid, "%.100q is not a name of a user", u.Name).
			WithHint("a name has 1 to %d bytes of printing characters without blanks", maxUserName)
	}
	return nil
}

// SameUserName reports whether two names are one.
func SameUserName(a, b string) bool { return FoldUserName(a) == FoldUserName(b) }

// FoldUserName is the form in which names are compared.
func FoldUserName(name string) string { return strings.ToLower(name) }
