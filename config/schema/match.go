package schema

import (
	"net/netip"
	"slices"
)

// Match says which clients belong to a workload. Of each list one element has to fit, and
// an empty list fits everybody; so the zero Match is everybody.
type Match struct {
	Role            []string       // globs for the role of the client
	Database        []string       // globs for the name that the client asked for
	ApplicationName []string       // globs
	Client          []netip.Prefix // its address
	Unix            bool           // or it came by a Unix socket
}

// Everybody reports whether m leaves nobody out. Lists of addresses are not looked into.
func (m Match) Everybody() bool {
	return len(m.Client) == 0 && !m.Unix && FitsAll(m.Role) && FitsAll(m.Database) && FitsAll(m.ApplicationName)
}

// FitsAll reports whether any text fits the globs.
func FitsAll(globs []string) bool { return len(globs) == 0 || slices.Contains(globs, "*") }

// Equal reports whether both have the same lists.
func (m Match) Equal(other Match) bool {
	return slices.Equal(m.Role, other.Role) && slices.Equal(m.Database, other.Database) &&
		slices.Equal(m.ApplicationName, other.ApplicationName) && slices.Equal(m.Client, other.Client) && m.Unix == other.Unix
}
