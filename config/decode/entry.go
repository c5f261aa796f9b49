package decode

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// entry reads one key.
func (d *Decoder) entry(s *document.Section, e document.Entry) {
	full := slices.Concat(s.Path, e.Path)
	table, key := full[:len(full)-1], full[len(full)-1]
	section := d.label(table)
	if _, isOpen := d.open[section]; !isOpen || len(table) > 2 || isRepeated(table) && !isRepeated(s.Path) {
		d.stray(s, full, e)
		return
	}
	kind := ""
	switch {
	case len(table) == 0:
	case isNamed(table[0]):
		kind = table[0]
		if len(e.Path) == 3 {
			d.checkName(table[0], table[1], e.Key)
		}
	default:
		kind = document.Dotted(table...) // "log", "workload.match"
	}
	d.key(section, kind, key, e)
}

// stray complains about a key whose section does not exist.
func (d *Decoder) stray(s *document.Section, full []string, e document.Entry) {
	fake := document.Section{Path: full[:len(full)-1], At: e.Key, Entries: []document.Entry{e}}
	before := len(d.problems)
	if len(e.Path) > 1 || len(s.Path) == 0 {
		d.header(&fake)
	}
	if len(d.problems) == before && !d.said[d.label(fake.Path)] {
		d.complain(d.label(full), e.Key, "is not a key", "")
	}
}

// key finds a key's field and gives it the value.
func (d *Decoder) key(section, table, key string, e document.Entry) {
	full := schema.Section{Label: section}.KeyOf(key)
	d.given[full] = d.here(e.Value.At)
	fields := d.open[section]
	i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == key })
	if i >= 0 {
		d.set(full, fields[i], e.Value)
		return
	}
	if later, ok := findLater(table, key); ok {
		if !same(later.already, e.Value) {
			d.complain(full, e.Key, "is "+values.NotYet, laterFix(key, later.already))
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
func same(text string, v document.Node) bool {
	if text == "" {
		return false
	}
	want := document.Literal(text)
	return want.Kind == v.Kind && want.Text == v.Text && len(v.Items) == 0
}

// unknownKey complains about a key that nobody knows and tries to tell what was meant.
func (d *Decoder) unknownKey(full, table, key string, e document.Entry) {
	if table == schema.WorkloadKind || table == schema.RateKind {
		if fix := matchFix(table, key); fix != "" {
			d.complain(full, e.Key, "is not a key"+inSection(table), fix)
			return
		}
	}
	for _, s := range schema.Kinds() {
		if s.Kind == key && table != schema.MatchKind && table != schema.RateMatchKind {
			d.complain(full, e.Key, "is a section, not a key", "Write "+bracketed(key, nil)+" on a line of its own.")
			return
		}
	}
	if slices.Contains(laterSections(), key) {
		d.complain(full, e.Key, "is "+values.NotYet, "Leave it out.")
		return
	}
	d.complain(full, e.Key, "is not a key"+inSection(table), d.meant(table, key))
}

// matchFix tells how a key of match is written, or match itself.
func matchFix(table, key string) string {
	if key == "match" {
		return `Write match = { role = ["app"] }.`
	}
	fields := schema.MatchFields(&schema.Match{})
	if table == schema.RateKind {
		fields = schema.RateMatchFields(&schema.Rate{})
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
func (d *Decoder) meant(table, key string) string {
	var here, later []string
	home := ""
	for _, s := range schema.Kinds() {
		for _, f := range s.Fields {
			switch {
			case s.Kind == table:
				here = append(here, f.Name)
			case f.Name == key && home == "":
				home = "It belongs to " + belongsTo(s.Kind) + "."
			}
		}
	}
	if table == schema.MatchKind || table == schema.RateMatchKind {
		if near := values.Nearest(key, here); near != "" {
			return "Did you mean " + near + "?"
		}
		return "The keys here are " + strings.Join(here, ", ") + "."
	}
	if fix := elsewhere(key); fix != "" && (home == "" || table == schema.UpstreamKind) {
		return fix
	}
	if home != "" {
		return home
	}
	if near := values.Nearest(key, here); near != "" {
		return "Did you mean " + near + "?"
	}
	for _, k := range laterKeys() {
		if k.section == table {
			later = append(later, k.name)
		} else if k.name == key {
			return "It belongs to " + belongsTo(k.section) + ", and is " + values.NotYet + "."
		}
	}
	if near := values.Nearest(key, later); near != "" {
		return "Did you mean " + near + "? It is " + values.NotYet + "."
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
func (d *Decoder) set(full string, f schema.Field, n document.Node) {
	v, ok := d.resolve(full, n)
	if !ok {
		d.bad[full] = true
		return
	}
	for c := f.Type.Set(v); c != nil; c = c.Also {
		d.bad[full] = true
		fix := c.Advice
		if c.Fix != "" {
			fix = "Write " + f.Name + " = " + c.Fix + "."
		}
		d.complain(full, spotOf(v, c), c.Message, fix)
	}
}

// spotOf is where in the source a complaint points.
func spotOf(v values.Value, c *values.Complaint) document.Span {
	target := v.Node
	if c.Element > 0 && c.Element <= len(v.Items) {
		target = v.Items[c.Element-1]
		if c.OnName {
			return v.Names[c.Element-1].At
		}
	}
	if c.At.Known() && target.Plain && v.Env == "" {
		start := target.At.From + 1
		return document.Span{From: start + c.At.From, To: min(start+c.At.To, max(target.At.To-1, start+c.At.From+1))}
	}
	return target.At
}

// resolve replaces ${NAME}, in a value or in the elements of a list.
func (d *Decoder) resolve(full string, n document.Node) (values.Value, bool) {
	v := values.Value{Node: n, Dir: d.src.Dir}
	if n.Kind != document.Text {
		v.Items = slices.Clone(n.Items)
		for i, item := range v.Items {
			element, ok := d.resolve(full, item)
			if !ok {
				return v, false
			}
			v.Items[i] = element.Node
		}
		return v, true
	}
	variable, ok := variable(n.Text)
	if !ok {
		return v, true
	}
	v.Env = variable
	v.Text = d.getenv(variable)
	if v.Text == "" {
		d.complain(full, n.At, "the environment variable "+strconv.Quote(variable)+" is not set, or empty", "")
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
