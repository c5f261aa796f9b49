package proxy

import (
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// crowd counts the sessions of each role and database, as clients name them. Owned by the loop
// thread.
type crowd struct{ roles, databases map[string]int }

func newCrowd() crowd { return crowd{make(map[string]int), make(map[string]int)} }

// add counts one session more, or with -1 less.
func (c *crowd) add(database, role string, by int) {
	change(c.databases, database, by)
	change(c.roles, role, by)
}

func change(m map[string]int, name string, by int) {
	if m[name] += by; m[name] == 0 {
		delete(m, name)
	}
}

// full tells why a role can't have one session more in a database; nil if it can.
func (c *crowd) full(s *plan.Settings, database, role string) *wire.Error {
	if s.RoleOf != nil {
		if most := s.RoleOf(role).MaxClients; most > 0 && c.roles[role] >= most {
			return tooManyOf(`too many connections for role "` + role + `"`)
		}
	}
	if d, _ := s.Route(database); d != nil && d.MaxClients > 0 && c.databases[database] >= d.MaxClients {
		return tooManyOf(`too many connections for database "` + database + `"`)
	}
	return nil
}

// tooManyOf is a refusal in Postgres's words.
func tooManyOf(text string) *wire.Error {
	e := session.Say("max_clients")
	e.Message = text
	return e
}
