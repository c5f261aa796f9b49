package decode

import (
	"slices"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// place is a range of one of the sources.
type place struct {
	document.Span
	src *document.Source
}

// Decoder fills a File and collects what is wrong with it. It is used once.
type Decoder struct {
	// File is complete if there are no problems, and else has what could be read.
	File *schema.File

	src      *document.Source // what is being read
	getenv   func(string) string
	problems []document.Problem

	given map[string]place // where each key and each section of several is, by its full name
	bad   map[string]bool  // keys whose value was refused
	open  map[string][]schema.Field
	said  map[string]bool // sections about which there is a problem already

	workloads, rates repeated
}

// newDecoder prepares the reading of a source.
func newDecoder(src *document.Source, getenv func(string) string) *Decoder {
	return &Decoder{
		src: src, getenv: getenv, File: &schema.File{},
		given: map[string]place{}, bad: map[string]bool{}, open: map[string][]schema.Field{}, said: map[string]bool{},
		workloads: repeated{kind: schema.WorkloadKind}, rates: repeated{kind: schema.RateKind},
	}
}

// File reads a whole file, and over it what was typed at the console as SET key = value.
// getenv gives the value of ${NAME}; an empty one counts as not set.
func File(src *document.Source, getenv func(string) string, set map[string]string) *Decoder {
	d := newDecoder(src, getenv)
	doc, problems := document.Read(src, schema.TableKeys()...)
	d.problems = problems
	d.decode(doc)
	d.override(set)
	if !doc.Broken { // else what seems to be missing may be in the part that could not be read
		d.check()
	}
	return d
}

// Problems are all that have been found, in the order of the file.
func (d *Decoder) Problems() []document.Problem {
	document.Sort(d.problems)
	return d.problems
}

// Fine reports whether none of the keys, by their full names, was refused.
func (d *Decoder) Fine(keys ...string) bool {
	for _, k := range keys {
		if d.bad[k] {
			return false
		}
	}
	return true
}

// Complain notes a problem of a key, where the first of the keys near is that is written at
// all.
func (d *Decoder) Complain(key, message, fix string, near ...string) {
	d.complainAt(key, d.placeOf(near...), message, fix)
}

// Origins are where the keys and sections that are written come from, by their full names:
// "pgweir.toml:12", "SET" or "url".
func (d *Decoder) Origins() map[string]string {
	origin := map[string]string{}
	for key, at := range d.given {
		origin[key] = at.src.Origin(at.Span)
	}
	return origin
}

// here is a range of what is being read.
func (d *Decoder) here(at document.Span) place { return place{at, d.src} }

// complain notes a problem at a place of what is being read.
func (d *Decoder) complain(key string, at document.Span, message, fix string) {
	d.complainAt(key, d.here(at), message, fix)
}

// complainAt notes a problem at a place.
func (d *Decoder) complainAt(key string, at place, message, fix string) {
	src := at.src
	if src == nil {
		src = d.src
	}
	d.problems = append(d.problems, src.Locate(document.Problem{Key: key, Message: message, Fix: fix}, at.Span))
}

// decode reads all sections of a document.
func (d *Decoder) decode(doc document.Document) {
	d.countNames(doc)
	d.countWorkloads(doc)
	d.countRates(doc)
	for _, s := range schema.Sections(d.File) {
		if !s.IsRepeated() {
			d.openSection(s.Label, s.Fields)
		}
	}
	d.openWorkloads()
	d.openRates()
	for i := range doc.Sections {
		s := &doc.Sections[i]
		d.header(s)
		for _, e := range s.Entries {
			d.entry(s, e)
		}
	}
}

// openSection makes a section's keys known, each with its default.
func (d *Decoder) openSection(name string, fields []schema.Field) {
	schema.SetDefaults(fields, d.src.Dir)
	d.open[name] = fields
}

// countNames makes room for all upstreams, databases and roles before any is filled: the fields
// point into the slices.
func (d *Decoder) countNames(doc document.Document) {
	count := func(kind, name string, at document.Span) {
		full := document.Dotted(kind, name)
		if _, twice := d.given[full]; twice {
			return
		}
		d.given[full] = d.here(at)
		switch kind {
		case schema.UpstreamKind:
			d.File.Upstreams = append(d.File.Upstreams, schema.Upstream{Name: name})
		case schema.DatabaseKind:
			d.File.Databases = append(d.File.Databases, schema.Database{Name: name})
		default:
			d.File.Roles = append(d.File.Roles, schema.Role{Name: name})
		}
	}
	for _, s := range doc.Sections {
		if len(s.Path) == 2 && isNamed(s.Path[0]) && !s.Element {
			count(s.Path[0], s.Path[1], s.At)
		}
		for _, e := range s.Entries {
			if full := slices.Concat(s.Path, e.Path); len(full) == 3 && isNamed(full[0]) && !s.Element {
				count(full[0], full[1], e.Key)
			}
		}
	}
}

// isNamed reports whether sections of this kind carry a name.
func isNamed(section string) bool {
	return section == schema.UpstreamKind || section == schema.DatabaseKind || section == schema.RoleKind
}

// header checks the head of a section.
func (d *Decoder) header(s *document.Section) {
	full := d.label(s.Path)
	switch {
	case len(s.Path) == 0:
	case slices.Contains(laterSections(), s.Path[0]):
		d.complainOnce(s, "["+full+"] is "+values.NotYet, "Leave the section out.")
	case isRepeated(s.Path):
		d.repeatedHead(s, d.repeatedOf(s.Path))
	case isNamed(s.Path[0]):
		d.named(s, full)
	case isPlain(s.Path[0]):
		if len(s.Path) > 1 {
			d.complainOnce(s, "["+s.Path[0]+"] has no sections within it", "")
		} else if s.Element {
			d.complainOnce(s, "there is only one ["+full+"]", "Write ["+full+"].")
		}
	default:
		d.unknownSection(s, full)
	}
}

// isPlain reports whether there is one section of this name, without a name of its own.
func isPlain(section string) bool {
	return slices.Contains([]string{"log", "tls", "auth", "console"}, section)
}

// complainOnce notes a problem of a section; its keys are not looked at then.
func (d *Decoder) complainOnce(s *document.Section, message, fix string) {
	name := d.label(s.Path)
	if s.Element || !d.said[name] {
		d.complain("", s.At, message, fix)
	}
	d.said[name] = true
	s.Entries = nil
}

// findsLater is findLater for a condition.
func findsLater(section, key string) bool {
	_, ok := findLater(section, key)
	return ok
}

// named checks the head of [upstream.NAME], [database.NAME] and [role.NAME].
func (d *Decoder) named(s *document.Section, full string) {
	switch {
	case len(s.Path) == 1 && d.hasNamed(full) && !slices.ContainsFunc(s.Entries, func(e document.Entry) bool { return len(e.Path) == 1 }):
		// [upstream] with main.url = "..." below it is unusual, and right.
	case len(s.Path) == 1:
		d.complainOnce(s, "the section has no name", "Write "+exampleHeader(full)+".")
	case len(s.Path) > 2:
		d.complainOnce(s, "["+document.Dotted(s.Path[:2]...)+"] has no sections within it", "")
	case s.Element:
		d.complainOnce(s, "there is only one ["+full+"]", "Write ["+full+"].")
	default:
		d.checkName(s.Path[0], s.Path[1], s.At)
	}
}

// hasNamed reports whether there is a section of the kind with a name.
func (d *Decoder) hasNamed(kind string) bool {
	switch kind {
	case schema.UpstreamKind:
		return len(d.File.Upstreams) > 0
	case schema.DatabaseKind:
		return len(d.File.Databases) > 0
	default:
		return len(d.File.Roles) > 0
	}
}

// exampleHeader is a header with a name.
func exampleHeader(section string) string {
	switch section {
	case schema.DatabaseKind:
		return `[database.shop], or [database."*"] for every database`
	case schema.RoleKind:
		return `[role.app], or [role."*"] for every other role`
	default:
		return "[" + section + ".main]"
	}
}

// checkName checks the name of an upstream, database or role.
func (d *Decoder) checkName(section, name string, at document.Span) {
	switch {
	case !values.IsName(name, 63):
		d.complain("", at, "a name has 1 to 63 bytes and no control characters", "")
		d.bad[document.Dotted(section, name)] = true
	case section == schema.DatabaseKind && (name == "pgweir" || name == "pgbouncer"):
		d.complain(document.Dotted("database", name), at, "the name is reserved for the console", "")
	case section == schema.UpstreamKind && name == schema.AnyName:
		d.complain("", at, `an upstream cannot be called "*"`, "Write [upstream.main].")
		d.bad[document.Dotted(section, name)] = true
	}
}

// unknownSection complains about a section that nobody knows.
func (d *Decoder) unknownSection(s *document.Section, full string) {
	known := slices.Concat([]string{"log", "tls", "auth", "console", schema.UpstreamKind, schema.DatabaseKind, schema.WorkloadKind, schema.RoleKind, schema.RateKind}, laterSections())
	fix := "The sections are [log], [tls], [auth], [console], [upstream.NAME], [database.NAME], [[workload]], [role.NAME] and [[rate]]."
	if near := values.Nearest(s.Path[0], known); near != "" {
		fix = "Did you mean " + bracketed(near, s.Path[1:]) + "?"
		d.said[near] = true // so nobody says that it is missing
	} else if s.Path[0] == "databases" || s.Path[0] == "pgbouncer" || s.Path[0] == "users" {
		fix = "PgBouncer's files are " + values.NotYet + "."
	}
	message := "[" + full + "] is not a section"
	for _, f := range d.open[""] {
		if f.Name == full {
			message, fix = full+" is a key, not a section", "Write "+full+" = "+f.Default+"."
		}
	}
	d.complainOnce(s, message, fix)
}

// bracketed is the header of a section, with the rest of a name behind it.
func bracketed(section string, rest []string) string {
	switch {
	case section == schema.WorkloadKind || section == schema.RateKind:
		return "[[" + section + "]]"
	case section == schema.MatchKind || section == schema.RateMatchKind:
		return "[" + section + "]"
	}
	if len(rest) == 0 && isNamed(section) {
		rest = []string{"NAME"}
	}
	return "[" + document.Dotted(append([]string{section}, rest...)...) + "]"
}
