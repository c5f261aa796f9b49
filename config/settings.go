package config

import (
	"cmp"
	"strings"

	"github.com/pgweir/pgweir/config/decode"
	"github.com/pgweir/pgweir/config/schema"
)

// Reloadable tells whether a reload applies a new value of a key.
type Reloadable string

// The two kinds of keys.
const (
	Yes     Reloadable = "yes"
	Restart Reloadable = "restart" // only the next start does
)

// Setting is one key of a configuration with its value.
type Setting struct {
	Key     string // its full name, such as "workload.api.max_wait"
	Value   string // as the file would write it, secrets replaced by four asterisks; "" if leaving it out is the only way
	Default string // likewise
	Source  string // "default", "pgweir.toml:12" (the file as it was named), "SET" or "url"
	Unit    string // of a bare number
	Doc     string // what it does, in sentences
	Reload  Reloadable

	secret string // Value with its secrets
}

// defaultSource is the Source of what nobody has written.
const defaultSource = "default"

// Settings are all keys of all sections with their values, in the order of a file.
func (c *Config) Settings() []Setting {
	var list []Setting
	for _, s := range schema.Sections(&c.File) {
		for _, f := range s.Fields {
			list = append(list, c.setting(s, f))
		}
	}
	return list
}

// setting is one of them.
func (c *Config) setting(s schema.Section, f schema.Field) Setting {
	key := s.KeyOf(f.Name)
	g := Setting{
		Key: key, Value: f.Type.Get(), Default: f.Default, Source: cmp.Or(c.origin[key], defaultSource),
		Unit: f.Unit, Doc: f.Doc, Reload: Yes,
	}
	if f.Restart {
		g.Reload = Restart
	}
	g.secret = g.Value
	if f.Type.Reveal != nil {
		g.secret = f.Type.Reveal()
	}
	if g.Default == "" && g.Source == defaultSource {
		g.Default = g.Value // it follows from the rest: the only upstream, the programs of "tools"
	}
	return g
}

// Resolve finds the full name of a key, such as "workload.api.max_wait", from a part of it
// such as "max_wait" or "api.max_wait", if only one key fits. The built-in workload "tools"
// has to be named. The error is a [Problem].
func (c *Config) Resolve(key string) (string, error) { return decode.Resolve(&c.File, key) }

// String is the setting as a line of the file.
func (s Setting) String() string { return s.Key + " = " + s.Value }

// bare is a value without the quotes of a plain text, for people.
func bare(value string) string {
	inner, ok := strings.CutPrefix(value, `"`)
	if !ok {
		return value
	}
	inner, ok = strings.CutSuffix(inner, `"`)
	if !ok || strings.ContainsAny(inner, `"\`) || inner == "" {
		return value
	}
	return inner
}
