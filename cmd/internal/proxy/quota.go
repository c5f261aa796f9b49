package proxy

import (
	"github.com/pgweir/pgweir/pool"

	"github.com/pgweir/pgweir/cmd/internal/plan"
)

// quotasOf returns how many servers a role and a database may have, by their names on the
// server. Loop thread, or before it runs.
func (up *cluster) quotasOf(s *plan.Settings) func(role, database string) [2]pool.Quota {
	databases := make(map[string]int) // by their names on the server
	anyOther := 0
	for i := range s.Databases {
		d := &s.Databases[i]
		switch {
		case d.Upstream != up.name:
		case d.Name == "*" && d.DBName == "":
			anyOther = d.MaxServers
		default:
			name := d.OnServer(d.Name)
			most, known := databases[name]
			if !known || most == 0 || d.MaxServers > 0 && d.MaxServers < most {
				databases[name] = d.MaxServers
			}
		}
	}
	return func(role, database string) (q [2]pool.Quota) {
		if s.RoleOf != nil {
			if most := s.RoleOf(role).MaxServers; most > 0 {
				others := up.seated(func(s *seat) bool { return s.role == role })
				q[0] = pool.Quota{ID: up.quotaID("role", role), Limit: most, Others: others}
			}
		}
		most, known := databases[database]
		if !known {
			most = anyOther
		}
		if most > 0 {
			others := up.seated(func(s *seat) bool { return s.database == database })
			q[1] = pool.Quota{ID: up.quotaID("database", database), Limit: most, Others: others}
		}
		return q
	}
}

// quotaID numbers what has a quota. The numbers are kept: there are as many as such keys.
func (up *cluster) quotaID(kind, name string) int {
	n := kind + "\x00" + name
	id, known := up.quotaIDs[n]
	if !known {
		id = len(up.quotaIDs) + 1
		up.quotaIDs[n] = id
	}
	return id
}
