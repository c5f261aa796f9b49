package upstream

import "fmt"

// Attrs is what a host must be for its connections to be used, with libpq's words
// and meaning of target_session_attrs.
type Attrs uint8

// The values of target_session_attrs.
const (
	Any           Attrs = iota // whoever answers
	ReadWrite                  // no standby, and transactions may write by default
	ReadOnly                   // a standby, or transactions may not write by default
	Primary                    // no standby
	Standby                    // a standby
	PreferStandby              // a standby; if there is none, whoever answers
)

// ParseAttrs reads a value of target_session_attrs.
func ParseAttrs(s string) (Attrs, error) {
	for a := Any; a <= PreferStandby; a++ {
		if a.String() == s {
			return a, nil
		}
	}
	return Any, fmt.Errorf("%q is no target_session_attrs", s)
}

// String returns the value as libpq writes it.
func (a Attrs) String() string {
	return [...]string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}[a]
}

// role is what a server is. Standby belongs to the host; readOnly to the session,
// because the default differs by role, database and start-up packet.
type role struct{ standby, readOnly bool }

// fits reports whether a server of role r is what a wants best.
func (a Attrs) fits(r role) bool {
	switch a {
	case ReadWrite:
		return !r.standby && !r.readOnly
	case ReadOnly:
		return r.standby || r.readOnly
	case Primary:
		return !r.standby
	case Standby, PreferStandby:
		return r.standby
	}
	return true
}

// excludes reports whether no session on a host can fit that is, or is not, a
// standby.
func (a Attrs) excludes(standby bool) bool {
	switch a {
	case ReadWrite, Primary:
		return standby
	case Standby:
		return !standby
	}
	return false
}

// wrongRole is the failure of a host that is not what is wanted.
type wrongRole struct{ role role }

// Error says what the host is.
func (w wrongRole) Error() string {
	switch {
	case w.role.standby:
		return "is a standby"
	case w.role.readOnly:
		return "is read only by default"
	}
	return "is a primary"
}
