package proxy

import (
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// quotasOf returns how many servers the role and the database of a key may have, with the
// keys that share them. Loop thread, or before it runs.
func (up *cluster) quotasOf(s *Settings) func(admission.Key) [2]pool.Quota {
	databases := make(map[string]int) // by their names on the server
	anyOther := 0
	for i := range s.Databases {
		d := &s.Databases[i]
		switch {
		case d.Upstream != up.name:
		case d.Name == "*" && d.DBName == "":
			anyOther = d.MaxServers
		default:
			name := d.onServer(d.Name)
			most, known := databases[name]
			if !known || most == 0 || d.MaxServers > 0 && d.MaxServers < most {
				databases[name] = d.MaxServers
			}
		}
	}
	return func(k admission.Key) (q [2]pool.Quota) {
		info := up.core.KeyInfo(k)
		if s.RoleOf != nil {
			if most := s.RoleOf(info.Role).MaxServers; most > 0 {
				q[0] = pool.Quota{ID: up.quotaID("role", info.Role), Limit: most}
			}
		}
		most, known := databases[info.Database]
		if !known {
			most = anyOther
		}
		if most > 0 {
			q[1] = pool.Quota{ID: up.quotaID("database", info.Database), Limit: most}
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
