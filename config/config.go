package config

import "github.com/pgweir/pgweir/config/schema"

// Config is a configuration without contradictions. Nothing changes it after it has been
// read, so it may be shared.
type Config struct {
	schema.File // what is written, or would be

	warnings  []string
	matcher   *matcher
	rates     []rule            // what Rates ask of a client
	roles     map[string]int    // indices of Roles by name
	otherRole Role              // of those without a section
	origin    map[string]string // where the keys and sections that are not defaults come from
}

// Route finds where a client goes that asks for a database: the upstream, as an index into
// Upstreams, and the database's name there. It reports false for a name that no one
// configured.
func (c *Config) Route(database string) (upstream int, dbname string, ok bool) {
	var found *Database
	for i := range c.Databases {
		switch d := &c.Databases[i]; d.Name {
		case database:
			found = d
		case schema.AnyName:
			if found == nil {
				found = d
			}
		}
	}
	if found == nil {
		return 0, "", false
	}
	for i := range c.Upstreams {
		if c.Upstreams[i].Name == found.Upstream {
			upstream = i
		}
	}
	if found.DBName != "" {
		database = found.DBName
	}
	return upstream, database, true
}
