package config

import "github.com/pgweir/pgweir/config/schema"

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
	c.otherRole, c.roles = schema.DefaultRole(), map[string]int{}
	for i, r := range c.Roles {
		if c.roles[r.Name] = i; r.Name == schema.AnyName {
			c.otherRole = r
		}
	}
}
