package config

import "github.com/pgweir/pgweir/admission"

// Role is what a Postgres role may ask for.
type Role struct {
	Name         string // "*": every role that no other Role has
	MaxClass     admission.Class
	PromoteShare Share // of its work, in server-time, that may be above its workload's class
}

// RoleOf is what is configured for a role: its own section, that for all others, or the
// defaults with an empty Name.
func (c *Config) RoleOf(name string) Role {
	if i, found := c.roles[name]; found {
		return c.Roles[i]
	}
	return c.otherRole
}

// indexRoles prepares RoleOf.
func (c *Config) indexRoles() {
	c.otherRole, c.roles = Role{}, map[string]int{}
	defaults(roleFields(&c.otherRole), "")
	for i, r := range c.Roles {
		if c.roles[r.Name] = i; r.Name == anyRole {
			c.otherRole = r
		}
	}
}

// anyRole is the name that stands for all others.
const anyRole = "*"

// roleFields are the keys of [role.NAME].
func roleFields(r *Role) []field {
	return []field{
		{Key{
			Name: "max_class", Default: `"critical"`,
			Doc: "The highest class of its work, whatever it asks for and whatever its workload says. \"critical_plus\" is never refused to make room, so nobody has it who is not given it here.",
		}, enum(&r.MaxClass, classes())},
		{Key{
			Name: "promote_share", Default: `"30%"`,
			Doc: "How much of its work, in server-time, may be above the class of its workload. What it asks for beyond that is taken as of its workload's class, and counted.",
		}, share(&r.PromoteShare)},
	}
}
