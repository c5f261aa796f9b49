package roster

import (
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// Role is what Postgres says of a role. It is never changed.
type Role struct {
	Exists   bool         // in Postgres; a role that auth_query alone knows does not
	NoLogin  bool         // it exists and may not log in
	Secret   login.Secret // zero: none
	Until    time.Time    // its password counts before; zero: for ever
	Groups   []string     // of which it is a member, directly or not, itself among them; sorted
	Received time.Time    // when it was said; set by Roster
}

// Password is the secret with which the role may log in at a time; zero: none.
func (r *Role) Password(now time.Time) login.Secret {
	if r.NoLogin || !r.Until.IsZero() && !now.Before(r.Until) {
		return login.Secret{}
	}
	return r.Secret
}

// MemberOf reports whether the role exists and is a member of a group or the group itself.
func (r *Role) MemberOf(group string) bool {
	_, found := slices.BinarySearch(r.Groups, group)
	return r.Exists && found
}
