package config

import (
	"slices"
	"strings"
)

// place is a range of one of the sources.
type place struct {
	span
	src *source
}

// decoder fills a Config from a document and collects what is wrong with it.
type decoder struct {
	src      *source // what is being read
	getenv   func(string) string
	config   *Config
	problems []Problem

	given map[string]place // where each key and each section of several is, by its full name
	bad   map[string]bool  // keys whose value was refused
	open  map[string][]field
	said  map[string]bool // sections about which there is a problem already

	workloads, rates repeated
}

// newDecoder prepares the reading of a source.
func newDecoder(src *source, getenv func(string) string) *decoder {
	return &decoder{
		src: src, getenv: getenv, config: &Config{},
		given: map[string]place{}, bad: map[string]bool{}, open: map[string][]field{}, said: map[string]bool{},
		workloads: repeated{kind: workloadKind}, rates: repeated{kind: rateKind},
	}
}

// here is a range of what is being read.
func (d *decoder) here(at span) place { return place{at, d.src} }

// complain notes a problem at a place of what is being read.
func (d *decoder) complain(key string, at span, message, fix string) {
	d.complainAt(key, d.here(at), message, fix)
}

// complainAt notes a problem at a place.
func (d *decoder) complainAt(key string, at place, message, fix string) {
	src := at.src
	if src == nil {
		src = d.src
	}
	d.problems = append(d.problems, src.locate(Problem{Key: key, Message: message, Fix: fix}, at.span))
}

// decode reads all sections of a document.
func (d *decoder) decode(doc document) {
	doc.gatherWaits()
	d.countNames(doc)
	d.countWorkloads(doc)
	d.countRates(doc)
	for _, s := range d.config.sections() {
		if !s.isRepeated() {
			d.openSection(s.label, s.fields)
		}
	}
	d.openWorkloads()
	d.openRates()
	for i := range doc.sections {
		s := &doc.sections[i]
		d.header(s)
		for _, e := range s.entries {
			d.entry(s, e)
		}
	}
}

// openSection makes a section's keys known, each with its default.
func (d *decoder) openSection(name string, fields []field) {
	defaults(fields, d.src.dir)
	d.open[name] = fields
}

// countNames makes room for all upstreams, databases and roles before any is filled: the fields
// point into the slices.
func (d *decoder) countNames(doc document) {
	count := func(kind, name string, at span) {
		full := dotted(kind, name)
		if _, twice := d.given[full]; twice {
			return
		}
		d.given[full] = d.here(at)
		switch kind {
		case upstreamKind:
			d.config.Upstreams = append(d.config.Upstreams, Upstream{Name: name})
		case databaseKind:
			d.config.Databases = append(d.config.Databases, Database{Name: name})
		default:
			d.config.Roles = append(d.config.Roles, Role{Name: name})
		}
	}
	for _, s := range doc.sections {
		if len(s.path) == 2 && isNamed(s.path[0]) && !s.element {
			count(s.path[0], s.path[1], s.at)
		}
		for _, e := range s.entries {
			if full := slices.Concat(s.path, e.path); len(full) == 3 && isNamed(full[0]) && !s.element {
				count(full[0], full[1], e.key)
			}
		}
	}
}

// isNamed reports whether sections of this kind carry a name.
func isNamed(section string) bool {
	return section == upstreamKind || section == databaseKind || section == roleKind
}

// header checks the head of a section.
func (d *decoder) header(s *section) {
	full := d.label(s.path)
	switch {
	case len(s.path) == 0:
	case slices.Contains(laterSections(), s.path[0]):
		d.complainOnce(s, "["+full+"] is "+notYet, "Leave the section out.")
	case isRepeated(s.path):
		d.repeatedHead(s, d.repeatedOf(s.path))
	case isNamed(s.path[0]):
		d.named(s, full)
	case isPlain(s.path[0]):
		if len(s.path) > 1 {
			d.complainOnce(s, "["+s.path[0]+"] has no sections within it", "")
		} else if s.element {
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
func (d *decoder) complainOnce(s *section, message, fix string) {
	name := d.label(s.path)
	if s.element || !d.said[name] {
		d.complain("", s.at, message, fix)
	}
	d.said[name] = true
	s.entries = nil
}

// findsLater is findLater for a condition.
func findsLater(section, key string) bool {
	_, ok := findLater(section, key)
	return ok
}

// named checks the head of [upstream.NAME], [database.NAME] and [role.NAME].
func (d *decoder) named(s *section, full string) {
	switch {
	case len(s.path) == 1 && d.hasNamed(full) && !slices.ContainsFunc(s.entries, func(e entry) bool { return len(e.path) == 1 }):
		// [upstream] with main.url = "..." below it is unusual, and right.
	case len(s.path) == 1:
		d.complainOnce(s, "the section has no name", "Write "+exampleHeader(full)+".")
	case len(s.path) > 2:
		d.complainOnce(s, "["+dotted(s.path[:2]...)+"] has no sections within it", "")
	case s.element:
		d.complainOnce(s, "there is only one ["+full+"]", "Write ["+full+"].")
	default:
		d.checkName(s.path[0], s.path[1], s.at)
	}
}

// hasNamed reports whether there is a section of the kind with a name.
func (d *decoder) hasNamed(kind string) bool {
	switch kind {
	case upstreamKind:
		return len(d.config.Upstreams) > 0
	case databaseKind:
		return len(d.config.Databases) > 0
	default:
		return len(d.config.Roles) > 0
	}
}

// exampleHeader is a header with a name.
func exampleHeader(section string) string {
	switch section {
	case databaseKind:
		return `[database.shop], or [database."*"] for every database`
	case roleKind:
		return `[role.app], or [role."*"] for every other role`
	default:
		return "[" + section + ".main]"
	}
}

// checkName checks the name of an upstream, database or role.
func (d *decoder) checkName(section, name string, at span) {
	switch {
	case name == "" || len(name) > 63 || strings.ContainsFunc(name, isControl):
		d.complain("", at, "a name has 1 to 63 bytes and no control characters", "")
		d.bad[dotted(section, name)] = true
	case section == databaseKind && (name == "pgweir" || name == "pgbouncer"):
		d.complain(dotted("database", name), at, "the name is reserved for the console", "")
	case section == upstreamKind && name == anyDatabase:
		d.complain("", at, `an upstream cannot be called "*"`, "Write [upstream.main].")
		d.bad[dotted(section, name)] = true
	}
}

// unknownSection complains about a section that nobody knows.
func (d *decoder) unknownSection(s *section, full string) {
	known := slices.Concat([]string{"log", "tls", "auth", "console", upstreamKind, databaseKind, workloadKind, roleKind, rateKind}, laterSections())
	fix := "The sections are [log], [tls], [auth], [console], [upstream.NAME], [database.NAME], [[workload]], [role.NAME] and [[rate]]."
	if near := Nearest(s.path[0], known); near != "" {
		fix = "Did you mean " + bracketed(near, s.path[1:]) + "?"
		d.said[near] = true // so nobody says that it is missing
	} else if s.path[0] == "databases" || s.path[0] == "pgbouncer" || s.path[0] == "users" {
		fix = "PgBouncer's files are " + notYet + "."
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
	case section == workloadKind || section == rateKind:
		return "[[" + section + "]]"
	case section == matchKind || section == rateMatchKind:
		return "[" + section + "]"
	}
	if len(rest) == 0 && isNamed(section) {
		rest = []string{"NAME"}
	}
	return "[" + dotted(append([]string{section}, rest...)...) + "]"
}
