package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/config/schema"
)

// Change is one difference between two configurations.
type Change struct {
	Key     string // the full name of a key, or of a section that came or went
	Old     string // its value, with four asterisks for secrets; "" for a section that came
	New     string // likewise; "(changed)" if only a secret differs; "" for a section that went
	Source  string // where New comes from, as in [Setting]
	Restart bool   // only the next start applies it
}

// String is the change for a log: "workload.api.max_wait: 2s -> 500ms (pgweir.toml:31)".
func (c Change) String() string {
	from := c.Source
	if c.Restart {
		from = strings.TrimPrefix(from+", after a restart", ", ")
	}
	if from != "" {
		from = " (" + from + ")"
	}
	switch {
	case c.Old == "" && c.New == "":
		return c.Key + from
	case c.Old == "":
		return c.Key + ": " + c.New + from
	case c.New == "":
		return c.Key + ": " + c.Old + from
	}
	return c.Key + ": " + c.Old + " -> " + c.New + from
}

// What a Change says instead of a value.
const (
	added   = "added"
	removed = "removed"
	unset   = "none"
	changed = "(changed)"
)

// Diff tells what a reload changes: first the keys and sections of the new configuration in
// the order of its file, then the sections that are gone, then another order of matching.
// A new section is one change, without its keys. Equal configurations differ in nothing,
// wherever their values come from.
func Diff(before, after *Config) []Change {
	old := map[string]Setting{}
	sectionsBefore, sectionsAfter := map[string]bool{}, map[string]bool{}
	for _, s := range schema.Sections(&before.File) {
		sectionsBefore[s.Label] = true
		for _, f := range s.Fields {
			g := before.setting(s, f)
			old[g.Key] = g
		}
	}
	var list []Change
	for _, s := range schema.Sections(&after.File) {
		sectionsAfter[s.Label] = true
		if !sectionsBefore[s.Label] {
			if !s.IsMatch() {
				list = append(list, Change{Key: s.Label, New: added, Source: cmp.Or(after.origin[s.Label], defaultSource)})
			}
			continue
		}
		for _, f := range s.Fields {
			g := after.setting(s, f)
			if c, differs := compare(old[g.Key], g); differs {
				list = append(list, c)
			}
		}
	}
	for _, s := range schema.Sections(&before.File) {
		if !sectionsAfter[s.Label] && !s.IsMatch() {
			list = append(list, Change{Key: s.Label, Old: removed})
		}
	}
	for _, kind := range []string{schema.WorkloadKind, schema.RateKind} {
		if c, differs := compareOrder(kind, before, after); differs {
			list = append(list, c)
		}
	}
	return list
}

// compare compares two values of a key.
func compare(old, now Setting) (Change, bool) {
	if old.secret == now.secret {
		return Change{}, false
	}
	c := Change{Key: now.Key, Old: cmp.Or(bare(old.Value), unset), New: cmp.Or(bare(now.Value), unset), Source: now.Source, Restart: now.Reload == Restart}
	if old.Value == now.Value {
		c.New = changed
	}
	return c, true
}

// compareOrder compares in which order the workloads or rates are asked that both have.
func compareOrder(kind string, before, after *Config) (Change, bool) {
	in := func(c, other *Config) string {
		names := other.namesOf(kind)
		return strings.Join(slices.DeleteFunc(c.namesOf(kind), func(n string) bool { return !slices.Contains(names, n) }), ", ")
	}
	old, now := in(before, after), in(after, before)
	return Change{Key: "the order of " + kind + "s", Old: old, New: now}, old != now
}

// namesOf are the names of the workloads or rates, in their order.
func (c *Config) namesOf(kind string) []string {
	var names []string
	if kind == schema.WorkloadKind {
		for _, w := range c.Workloads {
			names = append(names, w.Name)
		}
		return names
	}
	for _, r := range c.Rates {
		names = append(names, r.Name)
	}
	return names
}
