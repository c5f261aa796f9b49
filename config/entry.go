package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// entry reads one key.
func (d *decoder) entry(s *section, e entry) {
	full := slices.Concat(s.path, e.path)
	table, key := full[:len(full)-1], full[len(full)-1]
	section := d.label(table)
	if _, isOpen := d.open[section]; !isOpen || len(table) > 2 || isRepeated(table) && !isRepeated(s.path) {
		d.stray(s, full, e)
		return
	}
	kind := ""
	switch {
	case len(table) == 0:
	case isNamed(table[0]):
		kind = table[0]
		if len(e.path) == 3 {
			d.checkName(table[0], table[1], e.key)
		}
	default:
		kind = dotted(table...) // "log", "workload.match"
	}
	d.key(section, kind, key, e)
}

// stray complains about a key whose section does not exist.
func (d *decoder) stray(s *section, full []string, e entry) {
	fake := section{path: full[:len(full)-1], at: e.key, entries: []entry{e}}
	before := len(d.problems)
	if len(e.path) > 1 || len(s.path) == 0 {
		d.header(&fake)
	}
	if len(d.problems) == before && !d.said[d.label(fake.path)] {
		d.complain(d.label(full), e.key, "is not a key", "")
	}
}

// key finds a key's field and gives it the value.
func (d *decoder) key(section, table, key string, e entry) {
	full := sectionKeys{label: section}.keyOf(key)
	d.given[full] = d.here(e.value.at)
	fields := d.open[section]
	i := slices.IndexFunc(fields, func(f field) bool { return f.Name == key })
	if i >= 0 {
		d.set(full, fields[i], e.value)
		return
	}
	if later, ok := findLater(table, key); ok {
		if !same(later.already, e.value) {
			d.complain(full, e.key, "is "+notYet, laterFix(key, later.already))
		}
		return
	}
	d.bad[section] = true
	d.unknownKey(full, table, key, e)
}

// laterFix is what to do about a key of a later version.
func laterFix(key, already string) string {
	if already == "" {
		return "Leave it out."
	}
	return "Leave it out, or write " + key + " = " + already + "."
}

// same reports whether a value is what the TOML text says.
func same(text string, v node) bool {
	if text == "" {
		return false
	}
	want := literal(text)
	return want.kind == v.kind && want.text == v.text && len(v.items) == 0
}

// unknownKey complains about a key that nobody knows and tries to tell what was meant.
func (d *decoder) unknownKey(full, table, key string, e entry) {
	if table == workloadKind || table == rateKind {
		if fix := matchFix(table, key); fix != "" {
			d.complain(full, e.key, "is not a key"+inSection(table), fix)
			return
		}
	}
	for _, s := range sections() {
		if s.kind == key && table != matchKind && table != rateMatchKind {
			d.complain(full, e.key, "is a section, not a key", "Write "+bracketed(key, nil)+" on a line of its own.")
			return
		}
	}
	if slices.Contains(laterSections(), key) {
		d.complain(full, e.key, "is "+notYet, "Leave it out.")
		return
	}
	d.complain(full, e.key, "is not a key"+inSection(table), d.meant(table, key))
}

// matchFix tells how a key of match is written, or match itself.
func matchFix(table, key string) string {
	if key == "match" {
		return `Write match = { role = ["app"] }.`
	}
	fields := matchFields(&Match{})
	if table == rateKind {
		fields = rateMatchFields(&Rate{})
	}
	for _, f := range fields {
		if f.Name == key {
			return "Write match = { " + key + " = " + f.Example + " }."
		}
	}
	return ""
}

// inSection names a section for a message.
func inSection(table string) string {
	if table == "" {
		return " at the top of the file"
	}
	return " of " + bracketed(table, nil)
}

// meant guesses what an unknown key was meant to be.
func (d *decoder) meant(table, key string) string {
	var here, later []string
	home := ""
	for _, s := range sections() {
		for _, f := range s.fields {
			switch {
			case s.kind == table:
				here = append(here, f.Name)
			case f.Name == key && home == "":
				home = "It belongs to " + belongsTo(s.kind) + "."
			}
		}
	}
	if table == matchKind || table == rateMatchKind {
		if near := Nearest(key, here); near != "" {
			return "Did you mean " + near + "?"
		}
		return "The keys here are " + strings.Join(here, ", ") + "."
	}
	if fix := elsewhere(key); fix != "" && (home == "" || table == upstreamKind) {
		return fix
	}
	if home != "" {
		return home
	}
	if near := Nearest(key, here); near != "" {
		return "Did you mean " + near + "?"
	}
	for _, k := range laterKeys() {
		if k.section == table {
			later = append(later, k.name)
		} else if k.name == key {
			return "It belongs to " + belongsTo(k.section) + ", and is " + notYet + "."
		}
	}
	if near := Nearest(key, later); near != "" {
		return "Did you mean " + near + "? It is " + notYet + "."
	}
	return "The keys here are " + strings.Join(here, ", ") + "."
}

// belongsTo names the home of a key.
func belongsTo(section string) string {
	if section == "" {
		return "the top of the file, above the first [section]"
	}
	return bracketed(section, nil)
}

// set gives a field its value and turns complaints into problems.
func (d *decoder) set(full string, f field, n node) {
	v, ok := d.resolve(full, n)
	if !ok {
		d.bad[full] = true
		return
	}
	for c := f.kind.set(v); c != nil; c = c.also {
		d.bad[full] = true
		fix := c.advice
		if c.fix != "" {
			fix = "Write " + f.Name + " = " + c.fix + "."
		}
		d.complain(full, spotOf(v, c), c.message, fix)
	}
}

// spotOf is where in the source a complaint points.
func spotOf(v value, c *complaint) span {
	target := v.node
	if c.element > 0 && c.element <= len(v.items) {
		target = v.items[c.element-1]
		if c.onName {
			return v.names[c.element-1].at
		}
	}
	if c.at.known() && target.plain && v.env == "" {
		start := target.at.from + 1
		return span{start + c.at.from, min(start+c.at.to, max(target.at.to-1, start+c.at.from+1))}
	}
	return target.at
}

// resolve replaces ${NAME}, in a value or in the elements of a list.
func (d *decoder) resolve(full string, n node) (value, bool) {
	v := value{node: n, dir: d.src.dir}
	if n.kind != unstable.String {
		v.items = slices.Clone(n.items)
		for i, item := range v.items {
			element, ok := d.resolve(full, item)
			if !ok {
				return v, false
			}
			v.items[i] = element.node
		}
		return v, true
	}
	variable, ok := variable(n.text)
	if !ok {
		return v, true
	}
	v.env = variable
	v.text = d.getenv(variable)
	if v.text == "" {
		d.complain(full, n.at, "the environment variable "+strconv.Quote(variable)+" is not set, or empty", "")
		return v, false
	}
	return v, true
}

// variable is NAME of a text that is ${NAME} and nothing else.
func variable(text string) (string, bool) {
	inner, ok := strings.CutPrefix(text, "${")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "}")
}
